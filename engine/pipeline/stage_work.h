// What one action does: forward or backward of one stage, for one microbatch.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/timeline.h"
#include "engine/model/model.h"

namespace ftune {

// A microbatch in a stage, from its forward to its last backward.
struct InFlight {
  std::shared_ptr<const DeviceBatch> batch;
  // One a block of the stage.
  std::vector<Saved> saved;
  std::vector<Tensor> inputs;  // of those to be recomputed
};

class StageWork {
 public:
  virtual ~StageWork() = default;

  // Whether the stage has a backward.
  virtual bool Differentiated(const LocalStage& stage) const = 0;

  struct ForwardOptions {
    bool keeps = false;    // for a backward
    bool refresh = false;  // weights may have changed since the last forward
    bool last = false;     // of the step: gradients that are made in forward are complete
  };
  // x → the stage's output; undefined at the head.
  virtual Tensor Forward(const LocalStage& stage, InFlight& flight, const Context& context, Tensor x,
                         const ForwardOptions& options) = 0;

  struct BackwardOptions {
    bool with_weights = true;
    bool last = false;  // of the step: gradients are complete
    const std::function<void()>& before_block;
  };
  // The gradient of the stage's output, undefined at the head → that of its input; undefined if nothing below
  // is differentiated.
  virtual Tensor Backward(const LocalStage& stage, InFlight& flight, const Context& context, Tensor gradient,
                          const BackwardOptions& options) = 0;
  // The second half, after a Backward without weights.
  virtual void BackwardWeight(const LocalStage& stage, InFlight& flight, const Context& context,
                              bool last) = 0;

  // Shows what it does in `timeline`, which outlives it; null: nowhere.
  void set_timeline(Timeline* timeline) { timeline_ = timeline; }
  Timeline* timeline() const { return timeline_; }

 private:
  Timeline* timeline_ = nullptr;
};

}  // namespace ftune
