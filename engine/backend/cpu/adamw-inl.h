// One vector of AdamW's update, for moments of any type.

#if defined(FTUNE_ENGINE_BACKEND_CPU_ADAMW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FTUNE_ENGINE_BACKEND_CPU_ADAMW_INL_H_
#undef FTUNE_ENGINE_BACKEND_CPU_ADAMW_INL_H_
#else
#define FTUNE_ENGINE_BACKEND_CPU_ADAMW_INL_H_
#endif

#include "engine/backend/cpu/adamw_scalars.h"
#include "engine/backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

// Returns the new weights; m and v become the new moments.
HWY_INLINE VF AdamWStep(const AdamWScalars& s, VF gradients, VF weights, VF& m, VF& v) {
  const VF g = hn::Mul(gradients, Set(s.gradient_scale));
  const VF decayed = hn::Mul(weights, Set(s.keep));
  m = hn::MulAdd(Set(s.one_minus_beta1), hn::Sub(g, m), m);
  v = hn::MulAdd(hn::Mul(Set(s.one_minus_beta2), g), g, hn::Mul(v, Set(s.beta2)));
  const VF denominator = hn::Add(hn::Div(hn::Sqrt(v), Set(s.sqrt_bias_correction2)), Set(s.eps));
  return hn::NegMulAdd(Set(s.step_size), hn::Div(m, denominator), decayed);
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
