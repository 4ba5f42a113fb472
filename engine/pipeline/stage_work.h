// What one action does: forward or backward of the blocks of one stage, for one microbatch.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/timeline.h"
#include "engine/model/model.h"

namespace ftune {

// Which activations are kept from forward to backward, and which are made again.
struct RecomputePolicy {
  enum class Mode {
    kNone,       // all are kept
    kSelective,  // matrix products are kept; norms, activation functions and attention are recomputed
    kEveryNth,   // of every n-th decoder block only the input is kept, the block is recomputed
  };
  Mode mode = Mode::kNone;
  int every = 1;
};

// A microbatch in a stage, from its forward to its last backward.
struct InFlight {
  std::shared_ptr<const DeviceBatch> batch;
  // One a block of the stage.
  std::vector<Saved> saved;
  std::vector<Tensor> inputs;  // of those to be recomputed
};

// All end early where the model's hooks have failed.
class StageWork {
 public:
  // `model` outlives it. Blocks with numbers below `first_trainable` are not differentiated.
  StageWork(Backend& backend, Stream stream, Model& model, const RecomputePolicy& recompute,
            size_t first_trainable);

  bool Differentiated(const LocalStage& stage) const { return Differentiated(stage.end - 1); }

  struct ForwardOptions {
    bool keeps = false;    // for a backward
    bool refresh = false;  // weights may have changed since the last forward
    bool last = false;     // of the step: gradients that are made in forward are complete
  };
  // x → the stage's output; undefined at the head.
  Tensor Forward(const LocalStage& stage, InFlight& flight, const Context& context, Tensor x,
                 const ForwardOptions& options);

  struct BackwardOptions {
    bool with_weights = true;
    bool last = false;  // of the step: gradients are complete
    const std::function<void()>& before_block;
  };
  // The gradient of the stage's output, undefined at the head → that of its input; undefined if nothing below
  // is differentiated.
  Tensor Backward(const LocalStage& stage, InFlight& flight, const Context& context, Tensor gradient,
                  const BackwardOptions& options);
  // The second half, after a Backward without weights.
  void BackwardWeight(const LocalStage& stage, InFlight& flight, const Context& context, bool last);

  // Shows each block's work in `timeline`, which outlives it; null: nowhere.
  void set_timeline(Timeline* timeline) { timeline_ = timeline; }

 private:
  Tensor ForwardBlock(size_t block, const LocalStage& stage, const Context& context, const Tensor& x,
                      Saved* saved, const ForwardOptions& options);
  bool Differentiated(size_t block) const;
  bool DifferentiatedBelow(size_t block) const;
  bool Recomputed(size_t block) const;
  // The block whose values backward needs after those of `block`.
  std::optional<size_t> NextInBackward(const LocalStage& stage, size_t block) const;
  TimeScope Time(const char* what, size_t block) const;

  Backend& backend_;
  Stream stream_;
  Model& model_;
  RecomputePolicy recompute_;
  size_t first_trainable_;
  Timeline* timeline_ = nullptr;
};

}  // namespace ftune
