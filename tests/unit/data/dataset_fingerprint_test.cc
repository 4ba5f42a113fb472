#include "data/source/dataset_fingerprint.h"

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <vector>

#include "data/store/memory_store.h"

namespace ftune {
namespace {

struct Row {
  Sample sample;
  SampleInfo info;
};

Dataset DatasetOf(const std::vector<Row>& rows) {
  Dataset dataset;
  auto store = std::make_shared<MemoryTokenStore>();
  for (const Row& row : rows) {
    dataset.samples.push_back(store->size());
    store->Add(row.sample, row.info);
  }
  dataset.store = std::move(store);
  return dataset;
}

std::vector<Row> Rows() {
  std::vector<Row> rows;
  for (int i = 0; i < 3; ++i) {
    rows.push_back({{{i, i + 1, i + 2}, {0, 1, 1}}, {.entry = i, .row = i, .row_hash = 77u + i}});
  }
  return rows;
}

TEST_CASE("whatever a sample says changes the dataset's fingerprint") {
  const uint64_t same = FingerprintOf(DatasetOf(Rows()));
  CHECK(FingerprintOf(DatasetOf(Rows())) == same);
  const std::vector<std::function<void(std::vector<Row>&)>> changes = {
      [](std::vector<Row>& rows) { ++rows[1].sample.ids[1]; },
      [](std::vector<Row>& rows) { rows[2].sample.trained[1] = 0; },
      [](std::vector<Row>& rows) { ++rows[0].info.row; },
      [](std::vector<Row>& rows) { ++rows[0].info.entry; },
      [](std::vector<Row>& rows) { ++rows[2].info.row_hash; },
      [](std::vector<Row>& rows) { rows.pop_back(); },
      [](std::vector<Row>& rows) { std::swap(rows[0], rows[1]); }};
  for (size_t i = 0; i < changes.size(); ++i) {
    std::vector<Row> rows = Rows();
    changes[i](rows);
    CHECK_MESSAGE(FingerprintOf(DatasetOf(rows)) != same, i);
  }
  // Of a dataset with a part of the store's samples.
  Dataset part = DatasetOf(Rows());
  part.samples = {0, 2};
  CHECK(FingerprintOf(part) != same);
}

}  // namespace
}  // namespace ftune
