// A pipeline rank's update that does not wait for the other stages (Qi et al. 2023, "Zero bubble pipeline
// parallelism", section 4, optimizer post-validation): it is made as soon as the rank's own gradients are
// reduced, and taken back where it turns out that some rank's loss or gradients are not finite.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "engine/optim/optimizer.h"
#include "engine/pipeline/pipeline.h"
#include "engine/shard/model_shards.h"
#include "engine/train/loss_scaler.h"

namespace ftune {

// What of a run may keep its ranks from updating before all gradients are known to be good.
struct BarrierReasons {
  std::optional<float> max_grad_norm;
  bool states_on_disk = false;
  bool compresses = false;  // sums of gradients, by what earlier ones rounded away
};

// A sentence for the user: why ranks wait for each other before they update, though their schedule gains by
// not waiting. Empty where they do not wait, and where the schedule has nothing to gain.
std::string WhyBarrier(const Pipeline& pipeline, const BarrierReasons& reasons);

class OptimisticUpdate {
 public:
  // Has a copy of what the rank owns, for as long as it lives. `optimizer` has its states in memory; it,
  // `shards` and `scaler`, which may be null, outlive this.
  OptimisticUpdate(Backend& backend, Stream stream, Optimizer& optimizer, ModelShards& shards,
                   LossScaler* scaler);

  // Keeps what there is, updates it, and publishes it within the stage. The scaler is told that the step was
  // good.
  absl::Status Apply(float learning_rate, const Tensor& gradient_scale);
  // Weights, masters, optimizer states, counters and the loss scale are what they were before the last Apply,
  // to the bit.
  void TakeBack();

 private:
  Backend& backend_;
  Stream stream_;
  Optimizer& optimizer_;
  ModelShards& shards_;
  LossScaler* scaler_;
  OptimizerBackup backup_;
  LossScaler::State scaler_backup_;
};

}  // namespace ftune
