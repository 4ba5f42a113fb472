// What the vectorised kernels share; compiled once for each instruction set (see hwy/foreach_target.h).

#if defined(FTUNE_ENGINE_BACKEND_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FTUNE_ENGINE_BACKEND_CPU_SIMD_INL_H_
#undef FTUNE_ENGINE_BACKEND_CPU_SIMD_INL_H_
#else
#define FTUNE_ENGINE_BACKEND_CPU_SIMD_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes, so that padding to 16 suits every target.
using F32 = hn::CappedTag<float, 16>;
using I32 = hn::RebindToSigned<F32>;
using U32 = hn::RebindToUnsigned<F32>;
using VF = hn::Vec<F32>;
using VI = hn::Vec<I32>;
using VU = hn::Vec<U32>;

HWY_INLINE int64_t Lanes() { return static_cast<int64_t>(hn::Lanes(F32())); }
HWY_INLINE VF Set(float value) { return hn::Set(F32(), value); }

// Access to a whole vector of floats, or to the first `count` of one (the others read as 0 and are not
// written).
struct Whole {
  HWY_INLINE VF Load(const float* from) const { return hn::LoadU(F32(), from); }
  HWY_INLINE void Store(VF v, float* to) const { hn::StoreU(v, F32(), to); }
  HWY_INLINE VF Keep(VF v, VF) const { return v; }
};
struct First {
  int64_t count;
  HWY_INLINE VF Load(const float* from) const {
#if HWY_MEM_OPS_MIGHT_FAULT
    HWY_ALIGN float buffer[16] = {};
    std::memcpy(buffer, from, count * sizeof(float));
    return hn::Load(F32(), buffer);
#else
    return hn::MaskedLoad(hn::FirstN(F32(), count), F32(), from);
#endif
  }
  HWY_INLINE void Store(VF v, float* to) const {
#if HWY_MEM_OPS_MIGHT_FAULT
    HWY_ALIGN float buffer[16];
    hn::Store(v, F32(), buffer);
    std::memcpy(to, buffer, count * sizeof(float));
#else
    hn::BlendedStore(v, hn::FirstN(F32(), count), F32(), to);
#endif
  }
  // `v` in the lanes that count, `other` in the rest.
  HWY_INLINE VF Keep(VF v, VF other) const { return hn::IfThenElse(hn::FirstN(F32(), count), v, other); }
};

// op(access, i) for the vectors that make up [0, count): access is Whole, at last perhaps First.
template <class Op>
HWY_INLINE void ForVectors(int64_t count, const Op& op) {
  const int64_t lanes = Lanes();
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) op(Whole(), i);
  if (i < count) op(First{count - i}, i);
}

HWY_INLINE float Sum(VF v) { return hn::GetLane(hn::SumOfLanes(F32(), v)); }
HWY_INLINE float MaxLane(VF v) { return hn::GetLane(hn::MaxOfLanes(F32(), v)); }

// exp(r) * 2^n parts: n = round(x / ln 2), r the rest. Polynomial and two-part ln 2 of Cephes' expf
// (Moshier), error below 2 ulp.
HWY_INLINE VF ExpReduced(VF x, VF n) {
  VF r = hn::MulAdd(n, Set(-0.693359375f), x);
  r = hn::MulAdd(n, Set(2.12194440e-4f), r);
  VF p = hn::MulAdd(Set(1.9875691500e-4f), r, Set(1.3981999507e-3f));
  p = hn::MulAdd(p, r, Set(8.3334519073e-3f));
  p = hn::MulAdd(p, r, Set(4.1665795894e-2f));
  p = hn::MulAdd(p, r, Set(1.6666665459e-1f));
  p = hn::MulAdd(p, r, Set(5.0000001201e-1f));
  return hn::MulAdd(p, hn::Mul(r, r), hn::Add(r, Set(1.0f)));
}

// 2^n for whole n in [-126, 127].
HWY_INLINE VF PowerOfTwo(VI n) {
  return hn::BitCast(F32(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(I32(), 127))));
}

// e^x for x <= 0 (or a little above); below -87 it is 0. NaN stays NaN.
HWY_INLINE VF ExpNonPositive(VF x) {
  const auto vanishes = hn::Lt(x, Set(-87.0f));
  const VF n = hn::Round(hn::Mul(x, Set(1.44269504088896341f)));
  const VI exponent = hn::ConvertTo(I32(), hn::IfThenZeroElse(vanishes, n));
  return hn::IfThenZeroElse(vanishes, hn::Mul(ExpReduced(x, n), PowerOfTwo(exponent)));
}

// e^x; infinity above 88.8, 0 below -87. NaN stays NaN.
HWY_INLINE VF Exp(VF x) {
  const auto vanishes = hn::Lt(x, Set(-87.0f));
  x = hn::IfThenElse(hn::Gt(x, Set(89.0f)), Set(89.0f), x);
  const VF n = hn::Round(hn::Mul(x, Set(1.44269504088896341f)));
  const VI exponent = hn::ConvertTo(I32(), hn::IfThenZeroElse(vanishes, n));
  const VI half = hn::ShiftRight<1>(exponent);
  const VF scaled = hn::Mul(ExpReduced(x, n), PowerOfTwo(half));
  return hn::IfThenZeroElse(vanishes, hn::Mul(scaled, PowerOfTwo(hn::Sub(exponent, half))));
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
