#include "data/loader/data_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "data/loader/assemble.h"
#include "data/loader/epoch_order.h"

namespace ftune {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

absl::Status CheckAtLeastOne(const char* key, int64_t value) {
  if (value >= 1) return absl::OkStatus();
  return UsageError({.key = key, .found = StrCat(value), .expected = "1 or more"});
}

absl::Status CheckOptions(const DataPlanOptions& options) {
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

absl::Status CheckDataset(const Dataset& dataset, const DataPlanOptions& options, bool weighted) {
  bool any = false;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const SampleInfo info = dataset.info(i);
    if (info.length > options.sequence_len) {
      return DataError({.message = StrCat("sample ", i, " does not fit into a pack"),
                        .found = StrCat(info.length, " tokens"),
                        .expected = StrCat("at most data.sequence_len, ", options.sequence_len)});
    }
    any = any || !weighted || dataset.mix.at(static_cast<size_t>(info.entry)).weight > 0;
  }
  if (any) return absl::OkStatus();
  return DataError({.message = dataset.samples.empty() ? "the dataset has no samples"
                                                       : "every dataset that has samples has weight 0"});
}

}  // namespace

DataPlan::DataPlan(std::shared_ptr<const Dataset> dataset, const DataPlanOptions& options, bool shuffle)
    : dataset_(std::move(dataset)), options_(options), shuffle_(shuffle), cache_(std::make_unique<Cache>()) {
  lengths_.reserve(dataset_->samples.size());
  for (int64_t i = 0; i < dataset_->size(); ++i) lengths_.push_back(dataset_->info(i).length);
}

absl::StatusOr<DataPlan> DataPlan::Create(std::shared_ptr<const Dataset> dataset,
                                          const DataPlanOptions& options) {
  FTUNE_RETURN_IF_ERROR(CheckOptions(options));
  FTUNE_RETURN_IF_ERROR(CheckDataset(*dataset, options, /*weighted=*/true));
  DataPlan plan(std::move(dataset), options, /*shuffle=*/true);
  plan.PlanEpochs();
  return plan;
}

absl::StatusOr<DataPlan> DataPlan::CreateForEvaluation(std::shared_ptr<const Dataset> dataset,
                                                       const DataPlanOptions& options) {
  DataPlanOptions once = options;
  once.num_epochs = 1.0;
  once.max_steps = std::nullopt;
  FTUNE_RETURN_IF_ERROR(CheckOptions(once));
  FTUNE_RETURN_IF_ERROR(CheckDataset(*dataset, once, /*weighted=*/false));
  DataPlan plan(std::move(dataset), once, /*shuffle=*/false);
  plan.PlanEpochs();
  return plan;
}

void DataPlan::PlanEpochs() {
  const int64_t max_steps = options_.max_steps.value_or(std::numeric_limits<int64_t>::max());
  int64_t first_step = 0;
  for (int64_t epoch = 0; static_cast<double>(epoch) < options_.num_epochs && total_steps_ < max_steps;
       ++epoch) {
    Epoch summary{.first_step = first_step};
    const auto packs = PacksOf(epoch);
    summary.packs = static_cast<int64_t>(packs->size());
    summary.steps = CeilDiv(summary.packs, options_.global_batch_size);
    for (const Pack& pack : *packs) {
      summary.samples += static_cast<int64_t>(pack.size());
      for (const int64_t sample : pack) summary.tokens += lengths_[static_cast<size_t>(sample)];
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

std::vector<Pack> DataPlan::MakePacks(int64_t epoch) const {
  const std::vector<int64_t> order =
      shuffle_ ? ShuffledOrder(*dataset_, options_.seed, epoch) : FixedOrder(*dataset_);
  return options_.packing ? PlanPacks(lengths_, order, options_.sequence_len) : OneSamplePacks(order);
}

std::shared_ptr<const std::vector<Pack>> DataPlan::PacksOf(int64_t epoch) const {
  const std::lock_guard lock(cache_->mutex);
  if (cache_->epoch != epoch) {
    cache_->packs = std::make_shared<const std::vector<Pack>>(MakePacks(epoch));
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
  const int64_t end = std::min(begin + options_.global_batch_size, static_cast<int64_t>(packs->size()));
  return {std::move(packs), begin, end};
}

// One capacity for the whole step: were it one for each microbatch, a token's index within the step, and with
// it the dropout, would depend on how the step is split.
int64_t DataPlan::CapacityOf(const Step& step) const {
  if (options_.packing) return options_.sequence_len;
  int64_t longest = 0;
  for (int64_t p = step.begin; p < step.end; ++p) {
    for (const int64_t sample : (*step.epoch_packs)[p]) longest = std::max(longest, lengths_[sample]);
  }
  return CapacityBucket(longest, options_.sequence_len);
}

int64_t DataPlan::MicroBatches(int64_t step) const {
  const Step packs = StepOf(step);
  return CeilDiv(packs.end - packs.begin, options_.micro_batch_size * options_.ranks);
}

Batch DataPlan::MicroBatch(int64_t step, int64_t microbatch) const {
  const Step packs = StepOf(step);
  const int64_t capacity = CapacityOf(packs);
  const int64_t first = (microbatch * options_.ranks + options_.rank) * options_.micro_batch_size;
  Batch batch = BlankBatch(options_.micro_batch_size, capacity, first * capacity);
  for (int64_t p = 0; p < batch.packs; ++p) {
    const int64_t pack = packs.begin + first + p;
    std::vector<std::span<const StoredToken>> samples;
    if (pack < packs.end) {
      for (const int64_t sample : (*packs.epoch_packs)[pack]) samples.push_back(dataset_->sample(sample));
    }
    FillPack(batch, p, samples);
  }
  return batch;
}

int64_t DataPlan::TrainedTokens(int64_t step) const {
  const Step packs = StepOf(step);
  int64_t count = 0;
  for (int64_t p = packs.begin; p < packs.end; ++p) {
    for (const int64_t sample : (*packs.epoch_packs)[p]) count += dataset_->info(sample).trained_tokens;
  }
  return count;
}

double DataPlan::EpochsAfter(int64_t step) const {
  const int64_t epoch = EpochOf(step);
  const Epoch& summary = epochs_[static_cast<size_t>(epoch)];
  return static_cast<double>(epoch) +
         static_cast<double>(step + 1 - summary.first_step) / static_cast<double>(summary.steps);
}

}  // namespace ftune
