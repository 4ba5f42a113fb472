#include "data/source/split_dataset.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "base/error.h"
#include "base/random.h"
#include "data/store/memory_store.h"

namespace ftune {
namespace {

// What stands in a row, by a number: equal numbers are equal rows.
uint64_t HashOf(int64_t text) { return static_cast<uint64_t>(Philox(77, text, 88)[0]) << 32 | text; }

// A dataset of rows with these texts; every other text makes two samples.
Dataset Rows(const std::vector<int64_t>& texts) {
  Dataset dataset;
  auto store = std::make_shared<MemoryTokenStore>();
  dataset.mix = {{.weight = 3.0}};
  dataset.report.rows = static_cast<int64_t>(texts.size());
  for (size_t row = 0; row < texts.size(); ++row) {
    for (int piece = 0; piece < 1 + texts[row] % 2; ++piece) {
      dataset.samples.push_back(store->size());
      store->Add({{static_cast<int32_t>(texts[row]), piece}, {1, 1}},
                 {.row = static_cast<int64_t>(row), .row_hash = HashOf(texts[row])});
    }
  }
  dataset.store = store;
  return dataset;
}

std::vector<int64_t> UpTo(int64_t count) {
  std::vector<int64_t> texts;
  for (int64_t i = 0; i < count; ++i) texts.push_back(i);
  return texts;
}

std::set<int64_t> TextsOf(const Dataset& dataset) {
  std::set<int64_t> texts;
  for (int64_t i = 0; i < dataset.size(); ++i) texts.insert(dataset.sample(i)[0].id());
  return texts;
}

TrainAndEvaluation Split(const std::vector<int64_t>& texts, double size) {
  auto split = SplitDataset(Rows(texts), size);
  INFO(std::string(split.status().message()));
  REQUIRE(split.ok());
  return *std::move(split);
}

TEST_CASE("a split takes whole rows, in the dataset's order") {
  const TrainAndEvaluation split = Split(UpTo(1000), 0.2);
  const std::set<int64_t> train = TextsOf(split.train), evaluation = TextsOf(split.evaluation);
  CHECK(evaluation.size() > 150);
  CHECK(evaluation.size() < 250);
  CHECK(train.size() + evaluation.size() == 1000);
  CHECK(split.train.samples.size() + split.evaluation.samples.size() == 1500);
  CHECK(std::is_sorted(split.train.samples.begin(), split.train.samples.end()));
  CHECK(split.train.mix.at(0).weight == 3.0);
  CHECK(split.evaluation.mix.at(0).weight == 1.0);
  CHECK(split.train.report.rows == 1000);

  CHECK(TextsOf(Split(UpTo(1000), 150).evaluation).size() == 150);
  CHECK(Split(UpTo(100), 0).evaluation.samples.empty());
  CHECK(Split(UpTo(100), 0).train.samples.size() == 150);
}

TEST_CASE("a row's side is its own: other rows, their order and their number do not matter") {
  std::vector<int64_t> texts = UpTo(500);
  const std::set<int64_t> share = TextsOf(Split(texts, 0.1).evaluation);
  const std::set<int64_t> count = TextsOf(Split(texts, 50).evaluation);
  RandomSequence random(1, 2);
  for (int round = 0; round < 20; ++round) {
    // Some rows fewer (which a length policy may have dropped), some more, in another order.
    std::vector<int64_t> other;
    for (const int64_t text : texts) {
      if (random.Below(4) != 0) other.push_back(text);
    }
    for (int64_t i = 0; i < 100; ++i) other.push_back(1000 + i);
    Shuffle(std::span(other), random);
    const std::set<int64_t> kept(other.begin(), other.end());
    const std::set<int64_t> again = TextsOf(Split(other, 0.1).evaluation);
    for (const int64_t text : texts) {
      if (kept.contains(text)) CHECK(again.contains(text) == share.contains(text));
    }
  }
  // By count: in another order the same; of more rows, only ones that are new take the places of others.
  Shuffle(std::span(texts), random);
  CHECK(TextsOf(Split(texts, 50).evaluation) == count);
  texts.push_back(5000);
  texts.push_back(5001);
  for (const int64_t text : TextsOf(Split(texts, 50).evaluation)) {
    CHECK((count.contains(text) || text >= 5000));
  }
  // A larger share or count holds the smaller one.
  const std::set<int64_t> more = TextsOf(Split(texts, 0.2).evaluation);
  for (const int64_t text : share) CHECK(more.contains(text));
}

TEST_CASE("equal rows stay on one side") {
  std::vector<int64_t> texts;
  for (int64_t i = 0; i < 300; ++i) texts.push_back(i % 100);
  for (const double size : {0.3, 100.0, 1.0, 250.0}) {
    const TrainAndEvaluation split = Split(texts, size);
    for (const int64_t text : TextsOf(split.evaluation)) CHECK_FALSE(TextsOf(split.train).contains(text));
    if (size < 1) continue;
    const size_t least = static_cast<size_t>(size);  // whole groups of three equal rows
    std::set<int64_t> rows;
    for (int64_t i = 0; i < split.evaluation.size(); ++i) rows.insert(split.evaluation.info(i).row);
    CHECK(rows.size() == (least + 2) / 3 * 3);
  }
}

TEST_CASE("split sizes that cannot be") {
  for (const double size : {-0.1, 1.5, 100.0, 1000.0, 1 - 1e-12, 1e-9, std::nan("")}) {
    const auto split = SplitDataset(Rows(UpTo(100)), size);
    INFO(size);
    REQUIRE_FALSE(split.ok());
    CHECK(ExitCodeOf(split.status()) == 2);
    CHECK(DetailOf(split.status())->key == "data.val_set_size");
  }
  CHECK(SplitDataset(Rows(UpTo(100)), 99).ok());
  CHECK_FALSE(SplitDataset(Rows(UpTo(1)), 0.5).ok());
}

TEST_CASE("max_samples: a subset that stays, and has nothing to do with the split") {
  const auto limited = [](const std::vector<int64_t>& texts, int64_t most) {
    Dataset dataset = Rows(texts);
    dataset.mix[0].max_samples = most;
    LimitSamples(dataset);
    return dataset;
  };
  std::vector<int64_t> texts = UpTo(1000);
  const Dataset some = limited(texts, 300);
  CHECK(some.size() == 300);
  CHECK(std::is_sorted(some.samples.begin(), some.samples.end()));
  const std::set<int64_t> chosen = TextsOf(some);
  // Random: not the first rows, and independent of the side of a split.
  CHECK(*chosen.rbegin() > 900);
  const std::set<int64_t> evaluation = TextsOf(Split(texts, 0.5).evaluation);
  int64_t evaluated = 0;
  for (const int64_t text : chosen) evaluated += evaluation.contains(text);
  CHECK(evaluated > static_cast<int64_t>(chosen.size()) / 3);
  CHECK(evaluated < static_cast<int64_t>(chosen.size()) * 2 / 3);

  RandomSequence random(1, 2);
  Shuffle(std::span(texts), random);
  CHECK(TextsOf(limited(texts, 300)) == chosen);
  CHECK(limited(texts, 5000).size() == 1500);
  CHECK(limited(texts, 1).size() == 1);
  // A larger limit holds the smaller one.
  const std::set<int64_t> more = TextsOf(limited(texts, 600));
  for (const int64_t text : chosen) CHECK(more.contains(text));
}

}  // namespace
}  // namespace ftune
