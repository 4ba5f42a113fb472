#include "engine/backend/cpu/optimizers.h"
#include "engine/backend/cpu/targets.h"
#include "engine/backend/cpu/weight_update.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/lion.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/simd-inl.h"

namespace ftune::cpu {
#ifndef FTUNE_ENGINE_BACKEND_CPU_LION_ONCE_
#define FTUNE_ENGINE_BACKEND_CPU_LION_ONCE_

struct LionScalars {
  float gradient_scale;
  float keep;
  float learning_rate;
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
};

#endif
}  // namespace ftune::cpu

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

void LionRun(const LionScalars& s, int64_t count, const float* gradients, float* weights, float* momentum) {
  ForVectors(count, [&](auto part, int64_t i) HWY_ATTR {
    const VF g = hn::Mul(part.Load(gradients + i), Set(s.gradient_scale));
    const VF m = part.Load(momentum + i);
    const VF direction = hn::MulAdd(Set(s.one_minus_beta1), g, hn::Mul(Set(s.beta1), m));
    // The sign, 0 of 0 and NaN of NaN.
    const VF negative = hn::IfThenElse(hn::Lt(direction, Set(0.0f)), Set(-1.0f), direction);
    const VF sign = hn::IfThenElse(hn::Gt(direction, Set(0.0f)), Set(1.0f), negative);
    const VF decayed = hn::Mul(part.Load(weights + i), Set(s.keep));
    part.Store(hn::NegMulAdd(Set(s.learning_rate), sign, decayed), weights + i);
    part.Store(hn::MulAdd(Set(s.one_minus_beta2), g, hn::Mul(Set(s.beta2), m)), momentum + i);
  });
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {

HWY_EXPORT(LionRun);

void Lion(ThreadPool& pool, const LionArgs& args) {
  const UpdateArgs& update = args.update;
  const LionScalars scalars = {.gradient_scale = *update.gradient_scale.f32(),
                               .keep = Keep(update),
                               .learning_rate = update.learning_rate,
                               .beta1 = args.beta1,
                               .one_minus_beta1 = static_cast<float>(1.0 - args.beta1),
                               .beta2 = args.beta2,
                               .one_minus_beta2 = static_cast<float>(1.0 - args.beta2)};
  UpdatePieces(pool, update, [&](int64_t begin, int64_t count, float* weights) {
    HWY_DYNAMIC_DISPATCH(LionRun)
    (scalars, count, update.gradients.f32() + begin, weights, args.momentum.f32() + begin);
  });
}

}  // namespace ftune::cpu
#endif
