// The order of the data, ahead of time: which samples stand in which pack of which microbatch of which step.
// A pure function of the samples, the seed and the options; what a rank gets follows from its (rank, ranks)
// alone.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "data/loader/batch.h"
#include "data/loader/data_position.h"
#include "data/loader/mixture.h"
#include "data/loader/rank_slice.h"
#include "data/pack/pack_list.h"
#include "data/source/dataset.h"

namespace ftune {

struct DataPlanOptions {
  uint64_t seed = 42;
  int64_t sequence_len = 2048;
  bool packing = true;
  bool group_by_length = false;  // samples of similar length share a global batch; not where packed
  MixOrder mix = MixOrder::kConcat;
  int64_t global_batch_size = 16;  // packs (samples where not packed) a step, over all ranks
  int64_t micro_batch_size = 1;    // packs a microbatch
  int64_t rank = 0;                // of the data axis
  int64_t ranks = 1;
  double num_epochs = 1.0;           // fractions of the last epoch are rounded up to a whole step
  std::optional<int64_t> max_steps;  // whichever comes first
};

// Options out of range.
absl::Status CheckPlanOptions(const DataPlanOptions& options);

// Thread-safe. Steps and epochs are counted from 0. Beside the dataset it keeps four bytes a sample and eight
// a sample of the epoch at hand.
//
// An epoch takes the samples of each entry as its EntryMix says, in an order that depends on (seed, epoch)
// only. Its packs are cut into global batches in order; the last is short and is filled with empty packs.
class DataPlan {
 public:
  // Options out of range and a dataset without samples are errors.
  static absl::StatusOr<DataPlan> Create(std::shared_ptr<const Dataset> dataset,
                                         const DataPlanOptions& options);
  // All samples once: seed, num_epochs, max_steps and the entries' mix do not matter. They are always packed,
  // which does not change their losses: where training is not, into packs as long as the longest of them.
  static absl::StatusOr<DataPlan> CreateForEvaluation(std::shared_ptr<const Dataset> dataset,
                                                      const DataPlanOptions& options);

  int64_t total_steps() const { return total_steps_; }
  // Microbatches of a step, the same number on every rank; in an epoch's last step only as many as its packs
  // need.
  int64_t MicroBatches(int64_t step) const;
  // This rank's microbatch. Always micro_batch_size packs; those beyond the step's are empty: all tail,
  // nothing trained. The capacity is sequence_len; where not packed, and in an evaluation, the bucket of the
  // step's fullest pack.
  Batch MicroBatch(int64_t step, int64_t microbatch) const;
  // Of the whole global batch, all ranks: what the step's loss is divided by.
  int64_t TrainedTokens(int64_t step) const;

  // Epochs done when `step` is done, as a log shows it: 1.5 in the middle of the second.
  double EpochsAfter(int64_t step) const;
  // Before `step`, which may be total_steps.
  DataPosition PositionOf(int64_t step) const;

  struct Epoch {
    int64_t first_step = 0;
    int64_t steps = 0;  // of the whole epoch, also where the plan ends within it
    int64_t packs = 0;
    int64_t samples = 0;
    int64_t tokens = 0;
    int64_t trained_tokens = 0;
    int64_t capacity = 0;  // tokens of all packs, filled or not
    double fill() const { return static_cast<double>(tokens) / static_cast<double>(capacity); }
  };
  const std::vector<Epoch>& epochs() const { return epochs_; }  // those that the plan enters
  // The plan ends before num_epochs and max_steps, because every entry was taken as often as its `epochs`
  // allow.
  bool used_up() const { return used_up_; }

 private:
  // The packs of the epoch that was asked for last.
  struct Cache {
    std::mutex mutex;
    int64_t epoch = -1;
    std::shared_ptr<const PackList> packs;
  };
  struct Step {
    std::shared_ptr<const PackList> epoch_packs;
    int64_t begin = 0;  // its packs, [begin, end) of epoch_packs
    int64_t end = 0;
  };

  DataPlan(std::shared_ptr<const Dataset> dataset, const DataPlanOptions& options, bool evaluation);

  absl::Status CheckEpochSizes() const;
  void PlanEpochs();
  PackList MakePacks(int64_t epoch) const;
  std::shared_ptr<const PackList> PacksOf(int64_t epoch) const;
  int64_t EpochOf(int64_t step) const;
  Step StepOf(int64_t step) const;
  int64_t CapacityOf(const Step& step) const;
  RankSlice slice() const { return {options_.micro_batch_size, options_.rank, options_.ranks}; }

  std::shared_ptr<const Dataset> dataset_;
  DataPlanOptions options_;
  bool evaluation_;
  int64_t pack_capacity_;         // most tokens of a pack
  std::vector<int32_t> lengths_;  // of the samples
  std::vector<EntryRange> entries_;
  std::vector<Epoch> epochs_;
  int64_t total_steps_ = 0;
  bool used_up_ = false;
  std::unique_ptr<Cache> cache_;
};

}  // namespace ftune
