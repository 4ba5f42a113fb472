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

// e^x for x in [-87, 88.3]; NaN stays NaN. x = n ln 2 + r: e^r by the polynomial of Cephes' expf (Moshier),
// with ln 2 in two parts, then n added to its exponent. Within 2 ulp.
HWY_INLINE VF ExpInRange(VF x) {
  // Adding 1.5 * 2^23 rounds to a whole number and leaves it in the low bits.
  const VF shifted = hn::MulAdd(x, Set(1.44269504088896341f), Set(0x1.8p23f));
  const VF n = hn::Sub(shifted, Set(0x1.8p23f));
  VF r = hn::MulAdd(n, Set(-0.693359375f), x);
  r = hn::MulAdd(n, Set(2.12194440e-4f), r);
  VF p = hn::MulAdd(Set(1.3981999507e-3f), r, Set(8.3334519073e-3f));
  p = hn::MulAdd(p, r, Set(4.1665795894e-2f));
  p = hn::MulAdd(p, r, Set(1.6666665459e-1f));
  p = hn::MulAdd(p, r, Set(5.0000001201e-1f));
  p = hn::MulAdd(p, r, Set(1.0f));
  p = hn::MulAdd(p, r, Set(1.0f));
  const VI exponent = hn::ShiftLeft<23>(hn::BitCast(I32(), shifted));
  return hn::BitCast(F32(), hn::Add(hn::BitCast(I32(), p), exponent));
}

// e^x for x <= 88; below -87 it is 0. NaN stays NaN.
HWY_INLINE VF ExpNonPositive(VF x) { return hn::IfThenZeroElse(hn::Lt(x, Set(-87.0f)), ExpInRange(x)); }

// e^x with x held to 88; below -87 it is 0. NaN stays NaN.
HWY_INLINE VF Exp(VF x) { return ExpNonPositive(hn::IfThenElse(hn::Gt(x, Set(88.0f)), Set(88.0f), x)); }

// Within 2 ulp; NaN stays NaN. Near 0 the polynomial of Cephes' tanhf (Moshier), elsewhere by e^-2|x|.
HWY_INLINE VF Tanh(VF x) {
  const VF size = hn::Abs(x);
  const VF e = ExpNonPositive(hn::Mul(size, Set(-2.0f)));
  const VF far = hn::CopySign(hn::Div(hn::Sub(Set(1.0f), e), hn::Add(Set(1.0f), e)), x);
  const VF square = hn::Mul(x, x);
  VF p = hn::MulAdd(Set(-5.70498872745e-3f), square, Set(2.06390887954e-2f));
  p = hn::MulAdd(p, square, Set(-5.37397155531e-2f));
  p = hn::MulAdd(p, square, Set(1.33314422036e-1f));
  p = hn::MulAdd(p, square, Set(-3.33332819422e-1f));
  const VF near = hn::MulAdd(hn::Mul(p, square), x, x);
  return hn::IfThenElse(hn::Lt(size, Set(0.625f)), near, far);
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
