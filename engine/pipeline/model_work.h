// Executes the blocks of a model's stages.
#pragma once

#include <optional>

#include "engine/pipeline/stage_work.h"

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

// All ends early where the model's hooks have failed.
class ModelWork final : public StageWork {
 public:
  // `model` outlives it. Blocks with numbers below `first_trainable` are not differentiated.
  ModelWork(Backend& backend, Stream stream, Model& model, const RecomputePolicy& recompute,
            size_t first_trainable);

  bool Differentiated(const LocalStage& stage) const override { return Differentiated(stage.end - 1); }
  Tensor Forward(const LocalStage& stage, InFlight& flight, const Context& context, Tensor x,
                 const ForwardOptions& options) override;
  Tensor Backward(const LocalStage& stage, InFlight& flight, const Context& context, Tensor gradient,
                  const BackwardOptions& options) override;
  void BackwardWeight(const LocalStage& stage, InFlight& flight, const Context& context, bool last) override;

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
};

}  // namespace ftune
