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
#include "engine/train/step_costs.h"
#include "engine/train/step_exchange.h"

namespace ftune {

struct StepInput {
  int64_t step = 1;  // 1-based: keys dropout
  std::vector<Batch> microbatches;
  int64_t trained_tokens = 0;  // of the global batch: what the loss is divided by
  float learning_rate = 0.0f;
  double flops = 0.0;       // of this rank's part: for StepOutput::costs alone
  bool wants_save = false;  // of the state behind this step, on this rank
  bool has_next = false;    // this rank has the next step's batches: see StepProgress
  // Called on all ranks when gradients are where they are owned, before they move the weights. May be empty;
  // not where a step before this one is not settled.
  std::function<absl::Status()> before_update = nullptr;
};

struct StepOutput {
  int64_t step = 0;
  bool completed = false;   // false: stopped between microbatches, nothing was changed
  bool overflow = false;    // the loss is finite, the scaled gradients are not: nothing was changed
  double loss = 0.0;        // Σ token losses ÷ trained tokens
  double grad_norm = 0.0;   // before clipping, over all trainable parameters
  double loss_scale = 1.0;  // that gradients were computed with; grad_norm is without it
  WorldCosts costs;
};

// How far a step has come when RunAhead returns, the same on all ranks.
struct StepProgress {
  enum class Kind {
    kMade,     // the weights have moved, unless this step is settled and its output says otherwise
    kAgain,    // the step before turned out bad and was taken back: this one is to be run again
    kStopped,  // a rank is to stop: nothing was changed
  };
  Kind kind = Kind::kMade;
  // What is known now: of this step where ranks wait for each other, otherwise of the one before, if any.
  std::optional<StepOutput> settled;
  // A rank wants the state behind this step saved. Not told where ranks wait for each other.
  bool any_wants_save = false;
  // All ranks have said that they have the next step's batches. Not told where ranks wait for each other.
  bool all_have_next = false;
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
  // all ranks of the mesh. What fails is found by the first step. `work`: see Runner.
  TrainStep(Backend& backend, Stream stream, Model& model, Optimizer& optimizer, const Options& options,
            ModelShards* shards = nullptr, Pipeline* pipeline = nullptr,
            std::unique_ptr<StageWork> work = nullptr);

  // The step of all ranks of the mesh, each with its own microbatches; the outputs are the same on all. A
  // rank that is to stop stops all of them. Leaves the weights as they were where the loss or the gradient
  // norm is not finite. With a loss scaler infinite gradients of a finite loss are an overflow, which it is
  // told of. An error is that of a disk with optimizer states, of a rank, or of ranks that are not at the
  // same step. Where stages do not wait for each other (OptimisticUpdate) a stop takes effect at the next
  // step. Every step before it is settled.
  absl::StatusOr<StepOutput> Run(const StepInput& input, const std::function<bool()>& stop);

  // The same, but where stages do not wait for each other (OptimisticUpdate) the step is not settled then:
  // the weights have moved, and what the step was worth is known at the end of the next one, or by Settle.
  // All ranks settle at the same steps. After an error the weights are those of the last settled step.
  absl::StatusOr<StepProgress> RunAhead(const StepInput& input, const std::function<bool()>& stop);
  // Waits for all ranks where a step is not settled; its output. Before anything else looks at the weights.
  absl::StatusOr<std::optional<StepOutput>> Settle();

  Runner& runner() { return runner_; }
  ModelShards& shards() { return *shards_; }
  // The first error of any rank: what all that was computed since is worth.
  absl::Status status() const;
  // What this rank has sent and called since it began.
  CommTraffic traffic() const;
  // WhyBarrier, of this step.
  const std::string& why_barrier() const { return why_barrier_; }
  // Null without loss scaling. Stands behind the last step that was made, taken for good until it is settled.
  LossScaler* scaler() { return scaler_ ? &*scaler_ : nullptr; }

 private:
  // A step that was made but is not settled: on some rank it may have been bad.
  struct OpenStep {
    int64_t step = 0;
    int64_t trained_tokens = 0;
    double loss_scale = 1.0;
    StepCosts costs;
  };

  // Makes what stages need that do not wait for each other.
  void LeaveBarrier();
  // All ranks' norm before any rank's update.
  absl::StatusOr<StepOutput> RunWithBarrier(const StepInput& input, const std::function<bool()>& stop);
  // Updates before anything is known of the other stages, but not before the step before is settled.
  absl::StatusOr<StepProgress> RunOptimistically(const StepInput& input, const std::function<bool()>& stop);
  StepFacts FactsOf(const StepInput& input) const;
  StepOutput BeginOutput(const StepInput& input) const;
  // Of the whole batch, where they are owned; false where `stop` says so.
  absl::StatusOr<const std::vector<Action>*> ActionsOf(const StepInput& input);
  absl::StatusOr<bool> MakeGradients(const StepInput& input, const std::vector<Action>& actions,
                                     double loss_scale, const std::function<bool()>& stop);
  absl::Status Update(const StepInput& input);
  // Adds up loss and squares over the ranks, which agree on what is finite, and tells the scaler.
  absl::Status Validate(const StepInput& input, StepOutput& output);
  // Of the step that is to begin or, with no facts but its number, to be settled.
  StepRecord RecordOf(const StepFacts& facts);
  // The open step's output, which is no more open, from what all ranks say of it; takes back a bad one.
  StepOutput SettleOpen(const std::vector<StepRecord>& records);
  void TakeBackOpen();
  // What takes the loss scale out of the gradients and clips them, by what is in sum_of_squares_.
  void SetGradientScale(double loss_scale);
  StepCosts CostsOf(const StepInput& input) const;
  double ReadScalar(const Tensor& scalar);

  Backend& backend_;
  Stream stream_;
  Optimizer& optimizer_;
  Options options_;
  std::unique_ptr<ModelShards> own_shards_;  // where none are given
  ModelShards* shards_;
  Runner runner_;
  std::optional<LossScaler> scaler_;
  std::string why_barrier_;
  std::optional<OptimisticUpdate> optimistic_;  // none: with a barrier
  std::unique_ptr<StepExchange> exchange_;      // with the one above
  std::optional<OpenStep> open_;
  bool stop_agreed_ = false;  // in the step before
  Tensor loss_;               // [1, 1] f64
  Tensor sum_of_squares_;     // [1, 1] f64
  Tensor gradient_scale_;     // [1, 1] f32
};

}  // namespace ftune
