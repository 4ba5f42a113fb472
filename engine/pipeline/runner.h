// Executes a schedule's actions on a model's blocks.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/timeline.h"
#include "data/loader/batch.h"
#include "engine/model/model.h"
#include "parallel/schedule/schedule.h"

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
  // `model` outlives the runner and has its gradients allocated.
  Runner(Backend& backend, Stream stream, Model& model, const RecomputePolicy& recompute);

  // Runs all actions, or, once stop() says so, those up to the end of a microbatch, or, where the model's
  // hooks have failed, those up to the end of a block; returns whether all ran. Gradients are added to what
  // is there. `before_block` is called before each block's backward.
  bool Run(const std::vector<Action>& actions, const std::vector<Batch>& microbatches,
           const StepCoordinates& coordinates, const std::function<bool()>& stop,
           const std::function<void()>& before_block = nullptr);

  // Shows each block's work in `timeline`, which outlives the runner; null: nowhere.
  void set_timeline(Timeline* timeline) { timeline_ = timeline; }

  // Adds the token losses of `batch` to `loss`, without gradients.
  void Evaluate(const Batch& batch, const Tensor& loss);

 private:
  // What lives from a microbatch's forward to its last backward.
  struct InFlight {
    DeviceBatch batch;
    std::vector<Saved> saved;    // one a block
    std::vector<Tensor> inputs;  // of the blocks to be recomputed
  };

  Context MakeContext(const InFlight& flight, const StepCoordinates& coordinates);
  // These end early where the model's hooks have failed. `refresh`: weights may have changed since the last
  // forward. `last`: of the step's backwards.
  void Forward(InFlight& flight, const Context& context, bool refresh);
  void Backward(InFlight& flight, const Context& context, bool with_weights, bool last,
                const std::function<void()>& before_block);
  void BackwardWeight(InFlight& flight, const Context& context, bool last);
  Tensor ForwardBlock(size_t block, const Context& context, const Tensor& x, Saved* saved, bool refresh);
  bool Recomputed(size_t block) const;
  bool Differentiated(size_t block) const;
  // The block whose values backward needs after those of `block`.
  std::optional<size_t> NextInBackward(size_t block) const;

  Backend& backend_;
  Stream stream_;
  Model& model_;
  RecomputePolicy recompute_;
  Timeline* timeline_ = nullptr;
  std::vector<bool> trainable_before_;  // a block's input gradient is needed
};

}  // namespace ftune
