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
#include "data/pack/packing.h"
#include "data/source/dataset.h"

namespace ftune {

struct DataPlanOptions {
  uint64_t seed = 42;
  int64_t sequence_len = 2048;
  bool packing = true;
  int64_t global_batch_size = 16;  // packs (samples where not packed) a step, over all ranks
  int64_t micro_batch_size = 1;    // packs a microbatch
  int64_t rank = 0;                // of the data axis
  int64_t ranks = 1;
  double num_epochs = 1.0;           // fractions of the last epoch are rounded up to a whole step
  std::optional<int64_t> max_steps;  // whichever comes first
};

// Thread-safe. Steps and epochs are counted from 0.
//
// An epoch takes each sample once (or by its dataset's weight), in an order that depends on (seed, epoch)
// only. Its packs are cut into global batches in order; the last is short and is filled with empty packs.
// Pack p of a global batch is number p % micro_batch_size of microbatch p / (micro_batch_size × ranks) of
// rank p / micro_batch_size % ranks.
class DataPlan {
 public:
  // Options out of range and a dataset without samples are errors.
  static absl::StatusOr<DataPlan> Create(std::shared_ptr<const Dataset> dataset,
                                         const DataPlanOptions& options);
  // All samples once, in the dataset's order: seed, num_epochs, max_steps and the datasets' weights do not
  // matter.
  static absl::StatusOr<DataPlan> CreateForEvaluation(std::shared_ptr<const Dataset> dataset,
                                                      const DataPlanOptions& options);

  int64_t total_steps() const { return total_steps_; }
  // Microbatches of a step, the same number on every rank; in an epoch's last step only as many as its packs
  // need.
  int64_t MicroBatches(int64_t step) const;
  // This rank's microbatch. Always micro_batch_size packs; those beyond the step's are empty: all tail,
  // nothing trained. The capacity is sequence_len; where not packed, the bucket of the step's longest sample.
  Batch MicroBatch(int64_t step, int64_t microbatch) const;
  // Of the whole global batch, all ranks: what the step's loss is divided by.
  int64_t TrainedTokens(int64_t step) const;

  // Epochs done when `step` is done, as a log shows it: 1.5 in the middle of the second.
  double EpochsAfter(int64_t step) const;

  struct Epoch {
    int64_t first_step = 0;
    int64_t steps = 0;  // of the whole epoch, also where the plan ends within it
    int64_t packs = 0;
    int64_t samples = 0;
    int64_t tokens = 0;
    int64_t capacity = 0;  // tokens of all packs, filled or not
    double fill() const { return static_cast<double>(tokens) / static_cast<double>(capacity); }
  };
  const std::vector<Epoch>& epochs() const { return epochs_; }  // those that the plan enters

 private:
  // The packs of the epoch that was asked for last.
  struct Cache {
    std::mutex mutex;
    int64_t epoch = -1;
    std::shared_ptr<const std::vector<Pack>> packs;
  };
  struct Step {
    std::shared_ptr<const std::vector<Pack>> epoch_packs;
    int64_t begin = 0;  // its packs, [begin, end) of epoch_packs
    int64_t end = 0;
  };

  DataPlan(std::shared_ptr<const Dataset> dataset, const DataPlanOptions& options, bool shuffle);

  void PlanEpochs();
  std::vector<Pack> MakePacks(int64_t epoch) const;
  std::shared_ptr<const std::vector<Pack>> PacksOf(int64_t epoch) const;
  int64_t EpochOf(int64_t step) const;
  Step StepOf(int64_t step) const;
  int64_t CapacityOf(const Step& step) const;

  std::shared_ptr<const Dataset> dataset_;
  DataPlanOptions options_;
  bool shuffle_;
  std::vector<int64_t> lengths_;  // of the samples
  std::vector<Epoch> epochs_;
  int64_t total_steps_ = 0;
  std::unique_ptr<Cache> cache_;
};

}  // namespace ftune
