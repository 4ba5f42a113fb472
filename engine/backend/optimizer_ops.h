// Arguments of the optimizers' updates. Each works on a run of elements of a flat shard, [1, n] of one
// learning rate and decay, or on one matrix of it; state is f32 unless said otherwise and zero before the
// first step.
#pragma once

#include <cstdint>

#include "engine/tensor/tensor.h"

namespace ftune {

// Identifies the draws that round new weights stochastically: element i of the run draws from
// (seed, step, site, first + i), whatever the threads and however the shard is cut.
struct RoundingDraws {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint64_t site = 0;  // which shard, unique in the model
  int64_t first = 0;  // index in the shard of the run's first element
};

// What every update is given.
struct UpdateArgs {
  // f32: the weights themselves or their master copy. bf16: weights without a master; they are computed in
  // f32 and rounded up or down at random, so that the expected value is the unrounded one (Gupta et al.,
  // "Deep learning with limited numerical precision", 2015).
  Tensor weights;
  Tensor low;             // bf16 or f16, where `weights` is a master copy: receives the rounded new weights
  Tensor gradients;       // f32
  Tensor gradient_scale;  // [1, 1] f32 on the device: gradients are multiplied by it
  float learning_rate = 0.0f;
  float weight_decay = 0.0f;  // decoupled: weights *= 1 - learning_rate * weight_decay, before the update
  RoundingDraws draws;        // for bf16 weights
};

// AdamW (Loshchilov & Hutter, "Decoupled weight decay regularization", algorithm 2), as torch.optim.AdamW
// computes it.
struct AdamWArgs {
  UpdateArgs update;
  Tensor moment1, moment2;  // [1, n]
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float eps = 1e-8f;
  int64_t step = 1;  // 1-based
};

// AdamW with moments of 8 bits: codes of the dynamic maps, signed and unsigned, with a scale for each block
// of kStateBlock elements of the run (Dettmers et al., "8-bit optimizers via block-wise quantization", 2021).
// As bitsandbytes' AdamW8bit; a new moment gets the code of the nearest value.
inline constexpr int64_t kStateBlock = 256;
inline int64_t StateBlocks(int64_t elements) { return (elements + kStateBlock - 1) / kStateBlock; }
struct AdamW8bitArgs {
  UpdateArgs update;
  Tensor moment1, moment2;  // [1, n] u8
  Tensor scale1, scale2;    // [1, StateBlocks(n)]: the largest magnitude of a block
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float eps = 1e-8f;
  int64_t step = 1;  // 1-based
};

// torch.optim.SGD without dampening or nesterov: its weight decay is added to the gradient.
struct SgdArgs {
  UpdateArgs update;
  Tensor momentum;  // [1, n]; undefined where `factor` is 0
  float factor = 0.0f;
};

// Lion (Chen et al., "Symbolic discovery of optimization algorithms", 2023, algorithm 2).
struct LionArgs {
  UpdateArgs update;
  Tensor momentum;  // [1, n]
  float beta1 = 0.9f;
  float beta2 = 0.99f;
};

// Adafactor (Shazeer & Stern, "Adafactor: adaptive learning rates with sublinear memory cost", 2018), as
// torch.optim.Adafactor computes it: steps relative to the weights' size, clipped, no first moment. eps1,
// `None` there, is f32's epsilon. The update's tensors are one matrix [rows, cols], or one vector [1, n].
struct AdafactorArgs {
  UpdateArgs update;
  Tensor row_variance;  // [1, rows]; undefined for a vector
  Tensor col_variance;  // [1, cols]; undefined for a vector
  Tensor variance;      // [1, n]; undefined for a matrix
  float eps2 = 1e-3f;
  float clip = 1.0f;  // torch's d
  float beta2_decay = -0.8f;
  int64_t step = 1;  // 1-based
};

// Muon (Jordan, "Muon: an optimizer for hidden layers in neural networks", 2024), as torch.optim.Muon
// computes it, with nesterov momentum and five Newton-Schulz steps. Those are f32 here and bf16 there:
// updates differ by bf16's rounding. The update's tensors are one matrix [rows, cols].
inline constexpr int kNewtonSchulzSteps = 5;
struct MuonArgs {
  UpdateArgs update;
  Tensor momentum;  // [rows, cols]
  float factor = 0.95f;
  float scale = 1.0f;  // of the orthogonal update, on top of the learning rate
};

}  // namespace ftune
