#include "data/loader/data_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "base/strings.h"
#include "data/loader/assemble.h"
#include "data/pack/packing.h"
#include "data/pack/spread_packs.h"

namespace ftune {
namespace {

// Of the draws that order packs and batches; + epoch.
constexpr uint64_t kPacksPurpose = 0x7061636b73000000;  // "packs"

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

absl::Status CheckAtLeastOne(const char* key, int64_t value) {
  if (value >= 1) return absl::OkStatus();
  return UsageError({.key = key, .found = StrCat(value), .expected = "1 or more"});
}

absl::Status CheckDataset(const Dataset& dataset, const DataPlanOptions& options) {
  if (dataset.size() == 0) return DataError({.message = "the dataset has no samples"});
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  if (dataset.size() > kMost) {
    return DataError({.message = "the dataset is too large",
                      .found = StrCat(dataset.size(), " samples"),
                      .expected = StrCat("at most ", kMost),
                      .hint = "set max_samples of its entries"});
  }
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const int64_t length = dataset.info(i).length;
    if (length > options.sequence_len) {
      return DataError({.message = StrCat("sample ", i, " does not fit into a pack"),
                        .found = StrCat(length, " tokens"),
                        .expected = StrCat("at most data.sequence_len, ", options.sequence_len)});
    }
  }
  return absl::OkStatus();
}

// Samples of an entry stand side by side.
std::vector<EntryRange> EntryRanges(const Dataset& dataset) {
  std::vector<EntryRange> ranges(dataset.mix.size());
  for (size_t i = 0; i < ranges.size(); ++i) ranges[i].mix = dataset.mix[i];
  for (int64_t i = 0; i < dataset.size(); ++i) {
    EntryRange& range = ranges.at(static_cast<size_t>(dataset.info(i).entry));
    if (range.end == 0) range.begin = static_cast<uint32_t>(i);
    range.end = static_cast<uint32_t>(i) + 1;
  }
  return ranges;
}

int64_t LengthOf(std::span<const uint32_t> samples, const std::vector<int32_t>& lengths) {
  int64_t length = 0;
  for (const uint32_t sample : samples) length += lengths[sample];
  return length;
}

}  // namespace

absl::Status CheckPlanOptions(const DataPlanOptions& options) {
  FTUNE_RETURN_IF_ERROR(CheckAtLeastOne("data.sequence_len", options.sequence_len));
  FTUNE_RETURN_IF_ERROR(CheckAtLeastOne("train.global_batch_size", options.global_batch_size));
  FTUNE_RETURN_IF_ERROR(CheckAtLeastOne("train.micro_batch_size", options.micro_batch_size));
  FTUNE_RETURN_IF_ERROR(CheckAtLeastOne("parallel.data", options.ranks));
  if (options.max_steps) FTUNE_RETURN_IF_ERROR(CheckAtLeastOne("train.max_steps", *options.max_steps));
  if (options.rank < 0 || options.rank >= options.ranks) {
    return UsageError(
        {.key = "rank", .found = StrCat(options.rank), .expected = StrCat("0 to ", options.ranks - 1)});
  }
  if (!std::isfinite(options.num_epochs) || options.num_epochs <= 0) {
    return UsageError(
        {.key = "train.num_epochs", .found = StrCat(options.num_epochs), .expected = "more than 0"});
  }
  // Segments hold 32-bit offsets into a microbatch.
  constexpr int64_t kMaxTokens = std::numeric_limits<int32_t>::max();
  if (options.micro_batch_size > kMaxTokens / options.sequence_len) {
    return UsageError({.key = "train.micro_batch_size",
                       .found = StrCat(options.micro_batch_size, " × ", options.sequence_len, " tokens"),
                       .expected = StrCat("at most ", kMaxTokens, " tokens in a microbatch")});
  }
  return absl::OkStatus();
}

DataPlan::DataPlan(std::shared_ptr<const Dataset> dataset, const DataPlanOptions& options, bool evaluation)
    : dataset_(std::move(dataset)),
      options_(options),
      evaluation_(evaluation),
      pack_capacity_(options.sequence_len),
      entries_(EntryRanges(*dataset_)),
      cache_(std::make_unique<Cache>()) {
  lengths_.reserve(static_cast<size_t>(dataset_->size()));
  int64_t longest = 0;
  for (int64_t i = 0; i < dataset_->size(); ++i) {
    lengths_.push_back(static_cast<int32_t>(dataset_->info(i).length));
    longest = std::max<int64_t>(longest, lengths_.back());
  }
  if (evaluation_ && !options_.packing) pack_capacity_ = CapacityBucket(longest, options_.sequence_len);
}

absl::StatusOr<DataPlan> DataPlan::Create(std::shared_ptr<const Dataset> dataset,
                                          const DataPlanOptions& options) {
  FTUNE_RETURN_IF_ERROR(CheckPlanOptions(options));
  FTUNE_RETURN_IF_ERROR(CheckDataset(*dataset, options));
  DataPlan plan(std::move(dataset), options, /*evaluation=*/false);
  FTUNE_RETURN_IF_ERROR(plan.CheckEpochSizes());
  plan.PlanEpochs();
  return plan;
}

absl::StatusOr<DataPlan> DataPlan::CreateForEvaluation(std::shared_ptr<const Dataset> dataset,
                                                       const DataPlanOptions& options) {
  DataPlanOptions once = options;
  once.num_epochs = 1.0;
  once.max_steps = std::nullopt;
  FTUNE_RETURN_IF_ERROR(CheckPlanOptions(once));
  FTUNE_RETURN_IF_ERROR(CheckDataset(*dataset, once));
  DataPlan plan(std::move(dataset), once, /*evaluation=*/true);
  plan.PlanEpochs();
  return plan;
}

absl::Status DataPlan::CheckEpochSizes() const {
  int64_t samples = 0;
  for (const EntryRange& entry : entries_) samples += EntrySamples(entry, 0);
  if (samples == 0) return DataError({.message = "every dataset that has samples has weight 0"});
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  if (samples <= kMost) return absl::OkStatus();
  return UsageError({.key = "data.train",
                     .message = "an epoch is too long",
                     .found = StrCat(samples, " samples, by the weights of the entries"),
                     .expected = StrCat("at most ", kMost),
                     .hint = "lower the weights, and raise train.num_epochs instead"});
}

void DataPlan::PlanEpochs() {
  const int64_t max_steps = options_.max_steps.value_or(std::numeric_limits<int64_t>::max());
  int64_t first_step = 0;
  for (int64_t epoch = 0; static_cast<double>(epoch) < options_.num_epochs && total_steps_ < max_steps;
       ++epoch) {
    const auto packs = PacksOf(epoch);
    used_up_ = packs->size() == 0;
    if (used_up_) return;
    Epoch summary{.first_step = first_step, .packs = packs->size(), .samples = packs->samples()};
    summary.steps = CeilDiv(summary.packs, options_.global_batch_size);
    for (int64_t p = 0; p < packs->size(); ++p) {
      summary.tokens += LengthOf((*packs)[p], lengths_);
      for (const uint32_t sample : (*packs)[p])
        summary.trained_tokens += dataset_->info(sample).trained_tokens;
    }
    first_step += summary.steps;
    epochs_.push_back(summary);
    for (int64_t step = summary.first_step; step < first_step; ++step) {
      const Step step_packs = StepOf(step);
      epochs_.back().capacity += (step_packs.end - step_packs.begin) * CapacityOf(step_packs);
    }

    // The tolerance keeps 2.1 - 2 epochs of 30 steps, a little more than 3, from becoming 4.
    const double share = std::min(1.0, options_.num_epochs - static_cast<double>(epoch));
    const double steps = std::ceil(share * static_cast<double>(summary.steps) - 1e-9);
    total_steps_ =
        std::min(max_steps, summary.first_step + std::max<int64_t>(1, static_cast<int64_t>(steps)));
  }
}

PackList DataPlan::MakePacks(int64_t epoch) const {
  if (evaluation_) {
    std::vector<uint32_t> order(lengths_.size());
    std::iota(order.begin(), order.end(), 0u);
    return PlanPacks(lengths_, order, pack_capacity_, nullptr);
  }
  std::vector<uint32_t> order = EpochOrder(entries_, options_.mix, options_.seed, epoch);
  RandomSequence random(options_.seed, kPacksPurpose + static_cast<uint64_t>(epoch));
  if (options_.packing) {
    PackList packs = PlanPacks(lengths_, order, pack_capacity_, &random);
    if (options_.mix == MixOrder::kConcat || entries_.size() < 2) return packs;
    std::vector<uint32_t> ends;
    for (const EntryRange& entry : entries_) ends.push_back(entry.end);
    return SpreadPacks(packs, ends);
  }
  if (options_.group_by_length) GroupByLength(lengths_, options_.global_batch_size, random, order);
  return OneSamplePacks(order);
}

std::shared_ptr<const PackList> DataPlan::PacksOf(int64_t epoch) const {
  const std::lock_guard lock(cache_->mutex);
  if (cache_->epoch != epoch) {
    cache_->packs = nullptr;  // freed before the next are made
    cache_->packs = std::make_shared<const PackList>(MakePacks(epoch));
    cache_->epoch = epoch;
  }
  return cache_->packs;
}

int64_t DataPlan::EpochOf(int64_t step) const {
  const auto after = std::upper_bound(epochs_.begin(), epochs_.end(), step,
                                      [](int64_t s, const Epoch& epoch) { return s < epoch.first_step; });
  return after - epochs_.begin() - 1;
}

DataPlan::Step DataPlan::StepOf(int64_t step) const {
  const int64_t epoch = EpochOf(step);
  const int64_t begin = (step - epochs_[static_cast<size_t>(epoch)].first_step) * options_.global_batch_size;
  auto packs = PacksOf(epoch);
  const int64_t end = std::min(begin + options_.global_batch_size, packs->size());
  return {std::move(packs), begin, end};
}

// One capacity for the whole step: were it one for each microbatch, a token's index within the step, and with
// it the dropout, would depend on how the step is split.
int64_t DataPlan::CapacityOf(const Step& step) const {
  if (options_.packing && !evaluation_) return pack_capacity_;
  int64_t fullest = 0;
  for (int64_t p = step.begin; p < step.end; ++p) {
    fullest = std::max(fullest, LengthOf((*step.epoch_packs)[p], lengths_));
  }
  return CapacityBucket(fullest, pack_capacity_);
}

int64_t DataPlan::MicroBatches(int64_t step) const {
  const Step packs = StepOf(step);
  return slice().MicroBatches(packs.end - packs.begin);
}

Batch DataPlan::MicroBatch(int64_t step, int64_t microbatch) const {
  const Step packs = StepOf(step);
  const int64_t capacity = CapacityOf(packs);
  const int64_t first = slice().FirstPack(microbatch);
  Batch batch = BlankBatch(options_.micro_batch_size, capacity, first * capacity);
  for (int64_t p = 0; p < batch.packs; ++p) {
    const int64_t pack = packs.begin + first + p;
    std::vector<std::span<const StoredToken>> samples;
    if (pack < packs.end) {
      for (const uint32_t sample : (*packs.epoch_packs)[pack]) samples.push_back(dataset_->sample(sample));
    }
    FillPack(batch, p, samples);
  }
  return batch;
}

int64_t DataPlan::TrainedTokens(int64_t step) const {
  const Step packs = StepOf(step);
  int64_t count = 0;
  for (int64_t p = packs.begin; p < packs.end; ++p) {
    for (const uint32_t sample : (*packs.epoch_packs)[p]) count += dataset_->info(sample).trained_tokens;
  }
  return count;
}

double DataPlan::EpochsAfter(int64_t step) const {
  const int64_t epoch = EpochOf(step);
  const Epoch& summary = epochs_[static_cast<size_t>(epoch)];
  return static_cast<double>(epoch) +
         static_cast<double>(step + 1 - summary.first_step) / static_cast<double>(summary.steps);
}

DataPosition DataPlan::PositionOf(int64_t step) const {
  const int64_t epoch = EpochOf(step);
  const Epoch& summary = epochs_[static_cast<size_t>(epoch)];
  const int64_t batch = step - summary.first_step;
  if (batch >= summary.steps) return {.step = step, .epoch = epoch + 1};
  return {.step = step, .epoch = epoch, .batch = batch};
}

}  // namespace ftune
