// 16-bit floats to fp32 and back, vector by vector; compiled once for each instruction set.

#if defined(FTUNE_ENGINE_BACKEND_CPU_DEQUANT_PLAIN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FTUNE_ENGINE_BACKEND_CPU_DEQUANT_PLAIN_INL_H_
#undef FTUNE_ENGINE_BACKEND_CPU_DEQUANT_PLAIN_INL_H_
#else
#define FTUNE_ENGINE_BACKEND_CPU_DEQUANT_PLAIN_INL_H_
#endif

#include <cstddef>

#include "engine/backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

using U16 = hn::Rebind<uint16_t, F32>;
using F16 = hn::Rebind<hwy::float16_t, F32>;

HWY_INLINE VF Bf16ToVector(const std::byte* from) {
  const auto bits = hn::LoadU(U16(), reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(U32(), bits)));
}

HWY_INLINE VF F16ToVector(const std::byte* from) {
  return hn::PromoteTo(F32(), hn::LoadU(F16(), reinterpret_cast<const hwy::float16_t*>(from)));
}

// Rounds to nearest even; NaN is made quiet, so that its mantissa cannot round to infinity's.
HWY_INLINE void StoreBf16(VF v, std::byte* to) {
  const VU bits = hn::BitCast(U32(), v);
  const VU high = hn::ShiftRight<16>(bits);
  const VU odd = hn::And(high, hn::Set(U32(), 1));
  const VU rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(U32(), 0x7fff))));
  const auto nan = hn::RebindMask(U32(), hn::IsNaN(v));
  const VU result = hn::IfThenElse(nan, hn::Or(high, hn::Set(U32(), 0x40)), rounded);
  hn::StoreU(hn::DemoteTo(U16(), hn::BitCast(I32(), result)), U16(), reinterpret_cast<uint16_t*>(to));
}

HWY_INLINE void StoreF16(VF v, std::byte* to) {
  hn::StoreU(hn::DemoteTo(F16(), v), F16(), reinterpret_cast<hwy::float16_t*>(to));
}

#endif
}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
