#include "data/loader/planned_batches.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/random.h"
#include "data/store/memory_store.h"

namespace ftune {
namespace {

std::shared_ptr<const Dataset> Samples(int64_t count) {
  auto dataset = std::make_shared<Dataset>();
  auto store = std::make_shared<MemoryTokenStore>();
  RandomSequence random(5, 6);
  for (int64_t s = 0; s < count; ++s) {
    const auto length = static_cast<size_t>(2 + random.Below(60));
    Sample sample{std::vector<int32_t>(length, static_cast<int32_t>(s + 1)), std::vector<uint8_t>(length, 1)};
    dataset->samples.push_back(s);
    store->Add(sample, {.entry = s < count / 2 ? 0 : 1, .row = s});
  }
  dataset->mix = {{}, {.weight = 0.7}};
  dataset->store = store;
  return dataset;
}

DataPlan Plan(const DataPlanOptions& options, int64_t samples = 150) {
  auto plan = DataPlan::Create(Samples(samples), options);
  REQUIRE(plan.ok());
  return *std::move(plan);
}

std::vector<StepBatches> Rest(BatchSource& source) {
  std::vector<StepBatches> steps;
  for (;;) {
    auto next = source.Next();
    REQUIRE(next.ok());
    if (!next->has_value()) return steps;
    steps.push_back(**std::move(next));
  }
}

bool Same(const Batch& a, const Batch& b) {
  return a.packs == b.packs && a.capacity == b.capacity && a.ids == b.ids && a.positions == b.positions &&
         a.labels == b.labels && a.segments == b.segments && a.first_token == b.first_token;
}

bool Same(const StepBatches& a, const StepBatches& b) {
  return std::equal(a.microbatches.begin(), a.microbatches.end(), b.microbatches.begin(),
                    b.microbatches.end(), [](const Batch& x, const Batch& y) { return Same(x, y); }) &&
         a.trained_tokens == b.trained_tokens && a.epoch == b.epoch && a.next == b.next;
}

// The ids of a global batch, from all ranks, in order.
std::vector<int32_t> Ids(const std::vector<StepBatches>& ranks) {
  std::vector<int32_t> ids;
  for (const StepBatches& rank : ranks) {
    for (const Batch& batch : rank.microbatches) ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
  }
  ids.erase(std::remove(ids.begin(), ids.end(), 0), ids.end());
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST_CASE("restored at any batch, on any number of ranks, the batches go on as they would have") {
  for (const bool packing : {true, false}) {
    DataPlanOptions options = {.sequence_len = 100,
                               .packing = packing,
                               .mix = MixOrder::kInterleave,
                               .global_batch_size = 6,
                               .micro_batch_size = 2,
                               .num_epochs = 2.5};
    const DataPlan plan = Plan(options);
    PlannedBatches whole(plan);
    const std::vector<StepBatches> all = Rest(whole);
    CHECK(static_cast<int64_t>(all.size()) == plan.total_steps());
    CHECK(all.back().epoch == doctest::Approx(2.5).epsilon(0.05));
    for (size_t k = 0; k <= all.size(); ++k) {
      const DataPosition saved = k == 0 ? DataPosition() : all[k - 1].next;
      const auto position = ReadDataPosition(ToJson(saved), "state.json");
      REQUIRE(position.ok());
      CHECK(*position == saved);
      PlannedBatches restored(plan);
      REQUIRE(restored.Seek(*position).ok());
      CHECK(restored.position() == saved);
      const std::vector<StepBatches> rest = Rest(restored);
      REQUIRE(rest.size() == all.size() - k);
      bool same = true;
      for (size_t i = 0; i < rest.size(); ++i) same = same && Same(rest[i], all[k + i]);
      CHECK(same);
    }
    for (const int64_t ranks : {1, 2, 3, 4, 5, 8}) {
      options.ranks = ranks;
      for (const size_t k : {size_t{0}, size_t{1}, all.size() / 2, all.size() - 1}) {
        std::vector<std::vector<StepBatches>> by_rank;
        for (int64_t rank = 0; rank < ranks; ++rank) {
          options.rank = rank;
          const DataPlan own = Plan(options);
          PlannedBatches restored(own);
          REQUIRE(restored.Seek(k == 0 ? DataPosition() : all[k - 1].next).ok());
          by_rank.push_back(Rest(restored));
        }
        for (size_t i = 0; k + i < all.size(); ++i) {
          std::vector<StepBatches> step;
          for (const auto& rank : by_rank) {
            step.push_back(rank.at(i));
            CHECK(rank[i].next == all[k + i].next);
            CHECK(rank[i].microbatches.size() == by_rank[0][i].microbatches.size());
          }
          CHECK(Ids(step) == Ids({all[k + i]}));
        }
      }
    }
  }
}

TEST_CASE("positions that are not of this data") {
  const DataPlan plan = Plan({.sequence_len = 100, .global_batch_size = 2, .num_epochs = 2});
  const DataPlan shorter = Plan({.sequence_len = 100, .global_batch_size = 2, .num_epochs = 2}, 140);
  PlannedBatches batches(plan), others(shorter);
  const auto refused = [](const absl::Status& status, const std::string& key) {
    REQUIRE_FALSE(status.ok());
    CHECK(DetailOf(status)->key == key);
    CHECK(ExitCodeOf(status) == 4);
  };
  refused(batches.Seek({.step = 1000}), "position.step");
  refused(batches.Seek({.step = -1}), "position.step");
  refused(batches.Seek({.step = 3, .batch = 2}), "position.batch");
  refused(batches.Seek({.step = 3, .epoch = 1, .batch = 3}), "position.epoch");
  const DataPosition second_epoch = plan.PositionOf(plan.epochs()[1].first_step + 1);
  CHECK(second_epoch.epoch == 1);
  CHECK(second_epoch.batch == 1);
  refused(others.Seek(second_epoch), "position.batch");

  for (const char* json : {R"({})", R"([])", R"({"step": 1, "epoch": 0, "row": 0})",
                           R"({"step": -1, "epoch": 0, "row": 0, "batch": 0})",
                           R"({"step": 1.5, "epoch": 0, "row": 0, "batch": 0})",
                           R"({"step": "1", "epoch": 0, "row": 0, "batch": 0})"}) {
    const auto read = ReadDataPosition(nlohmann::ordered_json::parse(json), "state.json");
    REQUIRE_FALSE(read.ok());
    CHECK(DetailOf(read.status())->file == "state.json");
  }
}

}  // namespace
}  // namespace ftune
