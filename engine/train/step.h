// One training step: the gradient of the one loss over a global batch, clipped, applied.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/loader/batch.h"
#include "engine/optim/optimizer.h"
#include "engine/pipeline/pipeline.h"
#include "engine/pipeline/runner.h"
#include "engine/shard/model_shards.h"
#include "engine/train/loss_scaler.h"
#include "engine/train/optimistic_update.h"
#include "engine/train/step_agreement.h"

namespace ftune {

struct StepInput {
  int64_t step = 1;  // 1-based: keys dropout
  std::vector<Batch> microbatches;
  int64_t trained_tokens = 0;  // of the global batch: what the loss is divided by
  float learning_rate = 0.0f;
  // Called on all ranks when gradients are where they are owned, before they move the weights. May be empty.
  std::function<absl::Status()> before_update = nullptr;
};

struct StepOutput {
  bool completed = false;   // false: stopped between microbatches, nothing was changed
  bool overflow = false;    // the loss is finite, the scaled gradients are not: nothing was changed
  double loss = 0.0;        // Σ token losses ÷ trained tokens
  double grad_norm = 0.0;   // before clipping, over all trainable parameters
  double loss_scale = 1.0;  // that gradients were computed with; grad_norm is without it
};

class TrainStep {
 public:
  struct Options {
    uint64_t seed = 42;
    std::optional<float> max_grad_norm = 1.0f;
    float label_smoothing = 0.0f;
    float neftune_alpha = 0.0f;  // 0: no noise on the embeddings
    RecomputePolicy recompute;
    Timeline* timeline = nullptr;                  // outlives the step; what it does is shown there
    std::optional<LossScalerOptions> loss_scaler;  // none: gradients are computed as they are
  };

  // All outlive the step. `shards` are the model's, with gradients allocated; none: one rank has all, and the
  // gradients are the model's own. `pipeline` has the rank's place where the model is not whole. Called by
  // all ranks of the mesh.
  TrainStep(Backend& backend, Stream stream, Model& model, Optimizer& optimizer, const Options& options,
            ModelShards* shards = nullptr, Pipeline* pipeline = nullptr);

  // The step of all ranks of the mesh, each with its own microbatches; the outputs are the same on all. A
  // rank that is to stop stops all of them. Leaves the weights as they were where the loss or the gradient
  // norm is not finite. With a loss scaler infinite gradients of a finite loss are an overflow, which it is
  // told of. An error is that of a disk with optimizer states, of a rank, or of ranks that are not at the
  // same step. Where stages do not wait for each other (OptimisticUpdate) a stop takes effect at the next
  // step.
  absl::StatusOr<StepOutput> Run(const StepInput& input, const std::function<bool()>& stop);

  Runner& runner() { return runner_; }
  ModelShards& shards() { return *shards_; }
  // The first error of any rank: what all that was computed since is worth.
  absl::Status status() const;
  // What this rank has sent and called since it began.
  CommTraffic traffic() const;
  // WhyBarrier, of this step.
  const std::string& why_barrier() const { return why_barrier_; }
  // Null without loss scaling.
  LossScaler* scaler() { return scaler_ ? &*scaler_ : nullptr; }

 private:
  // All ranks' norm before any rank's update.
  absl::StatusOr<StepOutput> RunWithBarrier(const StepInput& input, const std::function<bool()>& stop);
  // Updates before anything is known of the other stages, and afterwards agrees on what it was worth.
  absl::StatusOr<StepOutput> RunOptimistically(const StepInput& input, const std::function<bool()>& stop);
  StepFacts FactsOf(const StepInput& input) const;
  StepOutput BeginOutput() const;
  // Of the whole batch, where they are owned; false where `stop` says so.
  absl::StatusOr<const std::vector<Action>*> ActionsOf(const StepInput& input);
  absl::StatusOr<bool> MakeGradients(const StepInput& input, const std::vector<Action>& actions,
                                     double loss_scale, const std::function<bool()>& stop);
  // Adds up loss and squares over the ranks, which agree on what is finite, and tells the scaler.
  absl::Status Validate(const StepInput& input, StepOutput& output);
  // What takes the loss scale out of the gradients and clips them, by what is in sum_of_squares_.
  void SetGradientScale(double loss_scale);
  // Where any rank has something that is not finite, all have.
  void AgreeOnFinite(StepOutput& output);
  double ReadScalar(const Tensor& scalar);

  Backend& backend_;
  Stream stream_;
  Optimizer& optimizer_;
  Options options_;
  std::unique_ptr<ModelShards> own_shards_;  // where none are given
  ModelShards* shards_;
  Runner runner_;
  std::optional<LossScaler> scaler_;
  StepAgreement agreement_;
  std::string why_barrier_;
  std::optional<OptimisticUpdate> optimistic_;  // none: with a barrier
  bool stop_agreed_ = false;                    // in the step before
  Tensor loss_;                                 // [1, 1] f64
  Tensor sum_of_squares_;                       // [1, 1] f64
  Tensor gradient_scale_;                       // [1, 1] f32
};

}  // namespace ftune
