// Executes a schedule's actions on a model's blocks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/timeline.h"
#include "data/loader/batch.h"
#include "engine/model/model.h"
#include "engine/pipeline/forward_pass.h"
#include "engine/pipeline/model_work.h"
#include "engine/pipeline/outbox.h"
#include "engine/pipeline/pipeline.h"

namespace ftune {

// What all microbatches of a step share.
struct StepCoordinates {
  uint64_t seed = 0;
  uint64_t step = 0;
  float loss_scale = 1.0f;  // 1 ÷ trained tokens of the global batch
  float label_smoothing = 0.0f;
  float neftune_alpha = 0.0f;  // 0: no noise on the embeddings
  Tensor loss;                 // [1, 1] f64, to which token losses are added
};

class Runner {
 public:
  // `model` and `pipeline`, the rank's place where the model is not whole, outlive the runner; the model has
  // its gradients allocated. `work` does what actions are; none: the model does.
  Runner(Backend& backend, Stream stream, Model& model, const RecomputePolicy& recompute,
         Pipeline* pipeline = nullptr, std::unique_ptr<StageWork> work = nullptr);

  // Runs all actions, or none or, on one rank, those up to the end of a microbatch, where stop() says so, or
  // those up to a failure; returns whether all ran. Gradients are added to what is there. `before_block` is
  // called before each block's backward. All ranks call stop() alike. What was sent last may still be on its
  // way.
  bool Run(const std::vector<Action>& actions, const std::vector<Batch>& microbatches,
           const StepCoordinates& coordinates, const std::function<bool()>& stop,
           const std::function<void()>& before_block = nullptr);

  // Until all that was sent has left, and its memory is free.
  void FinishSends() { sent_.Wait(); }

  // Adds the token losses of `batch` to `loss`, without gradients, on the ranks that have the head.
  void Evaluate(const Batch& batch, const Tensor& loss);

  Pipeline& pipeline() const { return *pipeline_; }
  void set_timeline(Timeline* timeline) { work_->set_timeline(timeline); }

 private:
  // A stage and a microbatch.
  using Place = std::pair<int, int>;
  // What comes from the stage before or behind; there once `pending` is done.
  struct Arrival {
    Tensor tensor;
    Pending pending;
  };
  // What is left to do in a stage.
  struct StageProgress {
    int forwards = 0;
    int gradients = 0;  // actions that make gradients of parameters
    bool refreshed = false;
  };
  struct Step;

  const LocalStage& StageOf(int stage) const;
  Context MakeContext(const DeviceBatch& batch, const StepCoordinates& coordinates);
  std::shared_ptr<const DeviceBatch> BatchOf(const Step& step, const LocalStage& stage, int microbatch);
  void Execute(Step& step, const Action& action);
  void Forward(Step& step, const Action& action);
  void Backward(Step& step, const Action& action);
  void BackwardWeight(Step& step, const Action& action);
  void Send(std::map<Place, Tensor>& made, Place place, int to_stage);
  void Receive(Step& step, std::map<Place, Arrival>& arrivals, Place place, int from_stage);
  Tensor Take(std::map<Place, Arrival>& arrivals, Place place);
  bool failed() const { return model_.hooks().failed() || !pipeline_->status().ok(); }

  Backend& backend_;
  Stream stream_;
  Model& model_;
  std::unique_ptr<Pipeline> own_pipeline_;  // where none is given
  Pipeline* pipeline_;
  std::unique_ptr<StageWork> work_;
  ForwardPass evaluation_;
  Outbox sent_;
};

}  // namespace ftune
