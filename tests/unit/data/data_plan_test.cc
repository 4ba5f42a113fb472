#include "data/loader/data_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "data/pack/packing.h"
#include "data/store/memory_store.h"

namespace ftune {
namespace {

constexpr int32_t kStride = 1000;  // token i of sample s is s * kStride + i + 1

// Samples of random lengths whose tokens tell where they come from; about half of them trained, or all.
// `entry` says which entry sample s belongs to.
std::shared_ptr<Dataset> Samples(
    int64_t count, int64_t max_length = 60, bool all_trained = false,
    const std::function<int32_t(int64_t)>& entry = [](int64_t) { return 0; }) {
  auto dataset = std::make_shared<Dataset>();
  RandomSequence random(3, 4);
  auto store = std::make_shared<MemoryTokenStore>();
  dataset->mix = {{}};
  dataset->report.rows = count;
  for (int64_t s = 0; s < count; ++s) {
    Sample sample;
    const auto length = static_cast<int32_t>(2 + random.Below(max_length - 1));
    for (int32_t i = 0; i < length; ++i) {
      sample.ids.push_back(static_cast<int32_t>(s) * kStride + i + 1);
      sample.trained.push_back(i == 1 || random.Below(2) == 1 || all_trained);
    }
    dataset->samples.push_back(s);
    store->Add(sample, {.entry = entry(s), .row = s});
  }
  dataset->store = store;
  return dataset;
}

DataPlan Plan(std::shared_ptr<const Dataset> dataset, const DataPlanOptions& options) {
  auto plan = DataPlan::Create(std::move(dataset), options);
  INFO(std::string(plan.status().message()));
  REQUIRE(plan.ok());
  return *std::move(plan);
}

// Checks that a batch is what its segments say, and gives the samples in it, in order.
std::vector<int64_t> CheckBatch(const Batch& batch, const Dataset& dataset) {
  const auto tokens = static_cast<size_t>(batch.tokens());
  REQUIRE(batch.ids.size() == tokens);
  REQUIRE(batch.positions.size() == tokens);
  REQUIRE(batch.labels.size() == tokens);
  std::vector<int64_t> samples;
  int64_t next = 0, used = 0, trained = 0;
  for (const Segment& segment : batch.segments) {
    CHECK(segment.begin == next);
    CHECK(segment.length > 0);
    next += segment.length;
    CHECK(segment.begin / batch.capacity == (next - 1) / batch.capacity);  // within one pack
    for (int32_t i = 0; i < segment.length; ++i) CHECK(batch.positions[segment.begin + i] == i);
    if (batch.ids[segment.begin] == 0) {  // a tail
      CHECK(next % batch.capacity == 0);
      for (int32_t i = 0; i < segment.length; ++i) {
        CHECK(batch.ids[segment.begin + i] == 0);
        CHECK(batch.labels[segment.begin + i] == kIgnoreLabel);
      }
      continue;
    }
    const int64_t s = batch.ids[segment.begin] / kStride;
    const Sample sample = CopySample(dataset.sample(s));
    REQUIRE(segment.length == sample.size());
    for (int32_t i = 0; i < segment.length; ++i) {
      CHECK(batch.ids[segment.begin + i] == sample.ids[i]);
      const bool learned = i + 1 < segment.length && sample.trained[i + 1];
      CHECK(batch.labels[segment.begin + i] == (learned ? sample.ids[i + 1] : kIgnoreLabel));
      trained += learned;
    }
    used += segment.length;
    samples.push_back(s);
  }
  CHECK(next == batch.tokens());
  CHECK(batch.used_tokens == used);
  CHECK(batch.trained_tokens == trained);
  return samples;
}

// The samples of a step, over all microbatches of one rank; their trained tokens are added up.
std::vector<int64_t> SamplesOfStep(const DataPlan& plan, int64_t step, const Dataset& dataset,
                                   int64_t* trained = nullptr) {
  std::vector<int64_t> samples;
  for (int64_t m = 0; m < plan.MicroBatches(step); ++m) {
    const Batch batch = plan.MicroBatch(step, m);
    const std::vector<int64_t> some = CheckBatch(batch, dataset);
    samples.insert(samples.end(), some.begin(), some.end());
    if (trained != nullptr) *trained += batch.trained_tokens;
  }
  return samples;
}

TEST_CASE("an epoch has every sample once, the last batch included") {
  for (const bool packing : {true, false}) {
    const auto dataset = Samples(103);
    const DataPlan plan = Plan(dataset, {.sequence_len = 100,
                                         .packing = packing,
                                         .global_batch_size = 4,
                                         .micro_batch_size = 2,
                                         .num_epochs = 2});
    REQUIRE(plan.epochs().size() == 2);
    for (const DataPlan::Epoch& epoch : plan.epochs()) {
      CHECK(epoch.samples == 103);
      CHECK(epoch.tokens == dataset->tokens());
      CHECK(epoch.steps == (epoch.packs + 3) / 4);
      std::vector<int64_t> seen;
      int64_t trained = 0, denominators = 0;
      for (int64_t step = epoch.first_step; step < epoch.first_step + epoch.steps; ++step) {
        const std::vector<int64_t> samples = SamplesOfStep(plan, step, *dataset, &trained);
        seen.insert(seen.end(), samples.begin(), samples.end());
        denominators += plan.TrainedTokens(step);
      }
      CHECK(trained == dataset->trained_tokens());
      CHECK(denominators == dataset->trained_tokens());
      std::sort(seen.begin(), seen.end());
      std::vector<int64_t> all(103);
      std::iota(all.begin(), all.end(), 0);
      CHECK(seen == all);
    }
    CHECK(plan.total_steps() == plan.epochs()[0].steps + plan.epochs()[1].steps);
  }
}

TEST_CASE("capacity: sequence_len when packed, the step's bucket when not") {
  const auto dataset = Samples(40);
  const DataPlan packed = Plan(dataset, {.sequence_len = 100, .global_batch_size = 2});
  CHECK(packed.MicroBatch(0, 0).capacity == 100);
  CHECK(packed.epochs()[0].capacity == 100 * packed.epochs()[0].packs);
  CHECK(packed.epochs()[0].fill() > 0.85);

  const auto wide = Samples(40, 400);
  const DataPlan rows =
      Plan(wide, {.sequence_len = 500, .packing = false, .global_batch_size = 2, .micro_batch_size = 1});
  CHECK(rows.epochs()[0].packs == 40);
  int64_t capacity = 0;
  for (int64_t step = 0; step < rows.total_steps(); ++step) {
    const Batch a = rows.MicroBatch(step, 0), b = rows.MicroBatch(step, 1);
    CHECK(a.capacity == b.capacity);
    CHECK(a.capacity == CapacityBucket(std::max(a.used_tokens, b.used_tokens), 500));
    capacity += a.capacity + b.capacity;
  }
  CHECK(rows.epochs()[0].capacity == capacity);
}

TEST_CASE("any split into microbatches and ranks has the same packs at the same global tokens") {
  for (const bool packing : {true, false}) {
    const auto dataset = Samples(90, 90);
    DataPlanOptions options = {
        .sequence_len = 128, .packing = packing, .global_batch_size = 6, .micro_batch_size = 6};
    const DataPlan whole = Plan(dataset, options);
    for (const auto& [micro, ranks] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {2, 1}, {3, 2}, {1, 6}, {4, 1}, {1, 4}, {5, 3}}) {
      std::vector<DataPlan> plans;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        options.micro_batch_size = micro;
        options.rank = rank;
        options.ranks = ranks;
        plans.push_back(Plan(dataset, options));
      }
      for (int64_t step = 0; step < whole.total_steps(); ++step) {
        const Batch expected = whole.MicroBatch(step, 0);
        std::vector<int32_t> ids(expected.ids.size(), 0), labels(expected.ids.size(), kIgnoreLabel);
        int64_t trained = 0, covered = 0;
        for (const DataPlan& plan : plans) {
          CHECK(plan.total_steps() == whole.total_steps());
          CHECK(plan.MicroBatches(step) == plans[0].MicroBatches(step));
          CHECK(plan.TrainedTokens(step) == expected.trained_tokens);
          for (int64_t m = 0; m < plan.MicroBatches(step); ++m) {
            const Batch batch = plan.MicroBatch(step, m);
            CHECK(batch.capacity == expected.capacity);
            CHECK(batch.packs == micro);
            CheckBatch(batch, *dataset);
            trained += batch.trained_tokens;
            covered += batch.used_tokens;
            for (int64_t t = 0; t < batch.tokens(); ++t) {
              const int64_t global = batch.first_token + t;
              if (global >= expected.tokens()) {  // a pack that only fills up the microbatch
                CHECK(batch.ids[t] == 0);
                continue;
              }
              CHECK(ids[global] == 0);
              ids[global] = batch.ids[t];
              labels[global] = batch.labels[t];
            }
          }
        }
        CHECK(ids == expected.ids);
        CHECK(labels == expected.labels);
        CHECK(trained == expected.trained_tokens);
        CHECK(covered == expected.used_tokens);
      }
    }
  }
}

TEST_CASE("a short last batch is filled with empty packs, and has only the microbatches it needs") {
  const auto dataset = Samples(5, 60, /*all_trained=*/true);
  const DataPlan plan =
      Plan(dataset, {.sequence_len = 64, .packing = false, .global_batch_size = 4, .micro_batch_size = 2});
  CHECK(plan.total_steps() == 2);
  CHECK(plan.MicroBatches(0) == 2);
  CHECK(plan.MicroBatches(1) == 1);
  const Batch last = plan.MicroBatch(1, 0);
  CHECK(last.packs == 2);
  CHECK(CheckBatch(last, *dataset).size() == 1);
  CHECK(last.segments.back() == Segment{64, 64});
  // Eight ranks for five packs: those without one get empty packs.
  const DataPlan idle =
      Plan(dataset, {.sequence_len = 64, .packing = false, .global_batch_size = 8, .rank = 7, .ranks = 8});
  CHECK(idle.MicroBatches(0) == 1);
  const Batch empty = idle.MicroBatch(0, 0);
  CHECK(empty.trained_tokens == 0);
  CHECK(empty.used_tokens == 0);
  CHECK(empty.segments == std::vector<Segment>{{0, 64}});
  CHECK(idle.TrainedTokens(0) == dataset->trained_tokens());
}

TEST_CASE("the order depends on the seed and the epoch only") {
  const auto dataset = Samples(60);
  const auto epoch_of = [&](const DataPlan& plan, size_t e) {
    std::vector<int64_t> samples;
    for (int64_t i = 0; i < plan.epochs()[e].steps; ++i) {
      const std::vector<int64_t> some = SamplesOfStep(plan, plan.epochs()[e].first_step + i, *dataset);
      samples.insert(samples.end(), some.begin(), some.end());
    }
    return samples;
  };
  const DataPlanOptions options = {.seed = 1, .sequence_len = 100, .global_batch_size = 2, .num_epochs = 3};
  const DataPlan plan = Plan(dataset, options);
  DataPlanOptions longer = options;
  longer.num_epochs = 5;
  longer.global_batch_size = 3;
  const DataPlan other = Plan(dataset, longer);
  CHECK(epoch_of(plan, 2) == epoch_of(other, 2));
  CHECK(epoch_of(plan, 0) == epoch_of(other, 0));  // going back, too
  CHECK(epoch_of(plan, 0) != epoch_of(plan, 1));
  DataPlanOptions reseeded = options;
  reseeded.seed = 2;
  CHECK(epoch_of(plan, 0) != epoch_of(Plan(dataset, reseeded), 0));
}

TEST_CASE("epochs and steps") {
  const auto dataset = Samples(60);
  DataPlanOptions options = {
      .sequence_len = 64, .packing = false, .global_batch_size = 2};  // 30 steps an epoch
  const auto steps = [&](double epochs, std::optional<int64_t> max_steps = std::nullopt) {
    options.num_epochs = epochs;
    options.max_steps = max_steps;
    return Plan(dataset, options).total_steps();
  };
  CHECK(steps(1) == 30);
  CHECK(steps(3) == 90);
  CHECK(steps(0.1) == 3);
  CHECK(steps(0.101) == 4);
  CHECK(steps(2.1) == 63);  // 2.1 - 2 is a little more than 0.1
  CHECK(steps(2.5) == 75);
  CHECK(steps(1e-6) == 1);
  CHECK(steps(2, 50) == 50);
  CHECK(steps(1, 50) == 30);
  CHECK(steps(1e12, 100) == 100);

  options.num_epochs = 2.5;
  options.max_steps = std::nullopt;
  const DataPlan plan = Plan(dataset, options);
  CHECK(plan.EpochsAfter(0) == doctest::Approx(1.0 / 30));
  CHECK(plan.EpochsAfter(29) == doctest::Approx(1.0));
  CHECK(plan.EpochsAfter(30) == doctest::Approx(1 + 1.0 / 30));
  CHECK(plan.EpochsAfter(74) == doctest::Approx(2.5));
}

TEST_CASE("epochs of weighted entries, and their end") {
  auto dataset = Samples(50, 60, false, [](int64_t s) { return s < 10 ? 0 : s < 20 ? 1 : s < 40 ? 2 : 3; });
  dataset->mix = {{1.0}, {2.0}, {0.25}, {0.0}};
  const DataPlan plan = Plan(dataset, {.sequence_len = 64});
  CHECK(plan.epochs()[0].samples == 35);
  CHECK_FALSE(plan.used_up());

  dataset->mix = {{.weight = 0.5, .epochs = 1.0}, {.weight = 0}, {.epochs = 3.0}, {.weight = 0}};
  const DataPlan ends = Plan(dataset, {.sequence_len = 64, .packing = false, .num_epochs = 9});
  CHECK(ends.used_up());
  REQUIRE(ends.epochs().size() == 3);
  CHECK(ends.epochs()[1].samples == 25);
  CHECK(ends.epochs()[2].samples == 20);
  CHECK(ends.total_steps() == 2 + 2 + 2);

  dataset->mix = {{0}, {0}, {0}, {0}};
  const auto none = DataPlan::Create(dataset, {.sequence_len = 64});
  REQUIRE_FALSE(none.ok());
  CHECK(std::string(none.status().message()).find("weight 0") != std::string::npos);
}

TEST_CASE("without packing, batches of similar lengths") {
  const auto dataset = Samples(403, 400);
  const DataPlanOptions options = {.sequence_len = 512, .packing = false, .global_batch_size = 4};
  DataPlanOptions grouped = options;
  grouped.group_by_length = true;
  const DataPlan plan = Plan(dataset, grouped);
  CHECK(plan.epochs()[0].packs == 403);
  CHECK(plan.epochs()[0].fill() > 1.3 * Plan(dataset, options).epochs()[0].fill());
  std::vector<int64_t> seen;
  for (int64_t step = 0; step < plan.total_steps(); ++step) {
    const std::vector<int64_t> some = SamplesOfStep(plan, step, *dataset);
    CHECK(some.size() == (step + 1 < plan.total_steps() ? 4 : 3));
    seen.insert(seen.end(), some.begin(), some.end());
  }
  std::sort(seen.begin(), seen.end());
  for (int64_t s = 0; s < 403; ++s) CHECK(seen.at(s) == s);
}

TEST_CASE("the samples of each global batch are the same for any number of ranks") {
  for (const bool packing : {true, false}) {
    const auto dataset = Samples(301, 90);
    DataPlanOptions options = {.sequence_len = 100, .packing = packing, .global_batch_size = 12};
    const DataPlan one = Plan(dataset, options);
    for (const int64_t ranks : {1, 2, 3, 4, 5, 8}) {
      std::vector<DataPlan> plans;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        options.rank = rank;
        options.ranks = ranks;
        plans.push_back(Plan(dataset, options));
      }
      for (int64_t step = 0; step < one.total_steps(); ++step) {
        std::vector<int64_t> expected = SamplesOfStep(one, step, *dataset), found;
        for (const DataPlan& plan : plans) {
          CHECK(plan.MicroBatches(step) == plans[0].MicroBatches(step));
          const std::vector<int64_t> some = SamplesOfStep(plan, step, *dataset);
          found.insert(found.end(), some.begin(), some.end());
        }
        std::sort(expected.begin(), expected.end());
        std::sort(found.begin(), found.end());
        CHECK(found == expected);
      }
    }
  }
}

// A store of which only the lengths are there.
class LengthsOnly : public TokenStore {
 public:
  explicit LengthsOnly(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  SampleInfo info(int64_t sample) const override {
    const int64_t length = 50 + static_cast<int64_t>(static_cast<uint64_t>(sample) * 2654435761u % 700);
    return {.length = length, .trained_tokens = length - 1, .row = sample};
  }
  std::span<const StoredToken> tokens(int64_t) const override { return {}; }
  absl::Status VisitDropped(const DroppedVisitor&) const override { return absl::OkStatus(); }

 private:
  int64_t size_;
};

TEST_CASE("a million samples are planned in bounded memory") {
  constexpr int64_t kSamples = 1'000'000;
  auto dataset = std::make_shared<Dataset>();
  dataset->store = std::make_shared<LengthsOnly>(kSamples);
  dataset->mix = {{}};
  dataset->samples.resize(kSamples);
  std::iota(dataset->samples.begin(), dataset->samples.end(), 0);
  const DataPlan plan = Plan(dataset, {.sequence_len = 2048, .num_epochs = 2});
  CHECK(plan.epochs()[0].samples == kSamples);
  CHECK(plan.epochs()[0].fill() >= 0.98);
  CHECK(plan.epochs()[1].tokens == plan.epochs()[0].tokens);
}

TEST_CASE("evaluation takes all samples once, and packs them whatever training does") {
  auto dataset = Samples(30);
  dataset->mix = {{0.5}};
  for (const bool packing : {true, false}) {
    const auto plan = DataPlan::CreateForEvaluation(dataset, {.seed = 1,
                                                              .sequence_len = 256,
                                                              .packing = packing,
                                                              .global_batch_size = 4,
                                                              .num_epochs = 7,
                                                              .max_steps = 2});
    REQUIRE(plan.ok());
    CHECK(plan->epochs().size() == 1);
    CHECK(plan->epochs()[0].packs < 20);
    CHECK(plan->epochs()[0].fill() > 0.7);
    std::vector<int64_t> seen;
    for (int64_t step = 0; step < plan->total_steps(); ++step) {
      const std::vector<int64_t> some = SamplesOfStep(*plan, step, *dataset);
      seen.insert(seen.end(), some.begin(), some.end());
      CHECK(plan->MicroBatch(step, 0).capacity <= (packing ? 256 : 64));
    }
    std::sort(seen.begin(), seen.end());
    std::vector<int64_t> all(30);
    std::iota(all.begin(), all.end(), 0);
    CHECK(seen == all);
  }
}

TEST_CASE("options and data that cannot be") {
  const auto dataset = Samples(10);
  const auto refused = [&](const DataPlanOptions& options, const std::string& key, int exit_code = 2) {
    for (const auto& plan : {DataPlan::Create(dataset, options).status()}) {
      REQUIRE_FALSE(plan.ok());
      INFO(std::string(plan.message()));
      CHECK(ExitCodeOf(plan) == exit_code);
      CHECK(DetailOf(plan)->key == key);
    }
  };
  refused({.sequence_len = 0}, "data.sequence_len");
  refused({.global_batch_size = 0}, "train.global_batch_size");
  refused({.micro_batch_size = -1}, "train.micro_batch_size");
  refused({.sequence_len = 1 << 20, .micro_batch_size = 1 << 20}, "train.micro_batch_size");
  refused({.ranks = 0}, "parallel.data");
  refused({.rank = 2, .ranks = 2}, "rank");
  refused({.num_epochs = 0}, "train.num_epochs");
  refused({.num_epochs = std::numeric_limits<double>::infinity()}, "train.num_epochs");
  refused({.max_steps = 0}, "train.max_steps");
  refused({.sequence_len = 10}, "", 4);  // a sample is longer
  const auto empty = DataPlan::Create(std::make_shared<Dataset>(), {});
  REQUIRE_FALSE(empty.ok());
  CHECK(std::string(empty.status().message()).find("no samples") != std::string::npos);
}

}  // namespace
}  // namespace ftune
