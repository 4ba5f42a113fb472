// Optimizers on the blocks' flat shards.
#pragma once

#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/model/model.h"

namespace ftune {

enum class OptimizerKind { kAdamW, kSgd };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdamW;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float eps = 1e-8f;
  float weight_decay = 0.0f;  // on matrices; norms and biases have none
};

class Optimizer {
 public:
  // Takes the trainable parameters of `model` as they are now: weights in low precision get their f32 master
  // here, so values are loaded before. `model` outlives the optimizer.
  Optimizer(Backend& backend, Stream stream, Model& model, const OptimizerOptions& options);

  // `step` is 1-based. gradient_scale: [1, 1] f32 on the device.
  void Step(Backend& backend, Stream stream, int64_t step, float learning_rate, const Tensor& gradient_scale);

  // The state of one parameter, as views of the flat shards; undefined where there is none.
  struct State {
    Tensor master, moment1, moment2;
  };
  State StateOf(const Parameter& parameter) const;

 private:
  struct Shard {
    ParameterStore* store = nullptr;
    Tensor master;  // undefined where the weights are f32: they are their own master
    Tensor moment1, moment2;
    std::vector<DecayRange> decay;
  };

  OptimizerOptions options_;
  std::vector<Shard> shards_;
};

}  // namespace ftune
