#include "engine/backend/cpu/optimizers.h"
#include "engine/backend/cpu/targets.h"
#include "engine/backend/cpu/weight_update.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/sgd.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/simd-inl.h"

namespace ftune::cpu {
#ifndef FTUNE_ENGINE_BACKEND_CPU_SGD_ONCE_
#define FTUNE_ENGINE_BACKEND_CPU_SGD_ONCE_

struct SgdScalars {
  float gradient_scale;
  float weight_decay;
  float learning_rate;
  float factor;
};

#endif
}  // namespace ftune::cpu

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

// `momentum` is null where there is none.
void SgdRun(const SgdScalars& s, int64_t count, const float* gradients, float* weights, float* momentum) {
  ForVectors(count, [&](auto part, int64_t i) HWY_ATTR {
    const VF w = part.Load(weights + i);
    VF g = hn::MulAdd(Set(s.weight_decay), w, hn::Mul(part.Load(gradients + i), Set(s.gradient_scale)));
    if (momentum != nullptr) {
      g = hn::MulAdd(Set(s.factor), part.Load(momentum + i), g);
      part.Store(g, momentum + i);
    }
    part.Store(hn::NegMulAdd(Set(s.learning_rate), g, w), weights + i);
  });
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {

HWY_EXPORT(SgdRun);

void Sgd(ThreadPool& pool, const SgdArgs& args) {
  const UpdateArgs& update = args.update;
  const SgdScalars scalars = {.gradient_scale = *update.gradient_scale.f32(),
                              .weight_decay = update.weight_decay,
                              .learning_rate = update.learning_rate,
                              .factor = args.factor};
  UpdatePieces(pool, update, [&](int64_t begin, int64_t count, float* weights) {
    HWY_DYNAMIC_DISPATCH(SgdRun)
    (scalars, count, update.gradients.f32() + begin, weights,
     args.momentum.defined() ? args.momentum.f32() + begin : nullptr);
  });
}

}  // namespace ftune::cpu
#endif
