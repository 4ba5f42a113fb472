// ggml's blocks of 32 values to fp32 (base/ggml_layout.h); compiled once for each instruction set. Each
// product and sum is rounded on its own: what a fused multiply-add would make of them is the same, since the
// products of scales and small integers are exact.

#if defined(FTUNE_ENGINE_BACKEND_CPU_DEQUANT_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FTUNE_ENGINE_BACKEND_CPU_DEQUANT_BLOCKS_INL_H_
#undef FTUNE_ENGINE_BACKEND_CPU_DEQUANT_BLOCKS_INL_H_
#else
#define FTUNE_ENGINE_BACKEND_CPU_DEQUANT_BLOCKS_INL_H_
#endif

#include <cstddef>

#include "base/ggml_layout.h"
#include "engine/backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

using U8 = hn::Rebind<uint8_t, F32>;
using I8 = hn::Rebind<int8_t, F32>;

HWY_INLINE VI LoadBytes(const uint8_t* from) { return hn::PromoteTo(I32(), hn::LoadU(U8(), from)); }
HWY_INLINE VI LoadBytes(const int8_t* from) { return hn::PromoteTo(I32(), hn::LoadU(I8(), from)); }
HWY_INLINE VI Int(int value) { return hn::Set(I32(), value); }

// The fp16 scale (and minimum) at the head of a block of at least 8 bytes.
struct BlockHead {
  float scale;
  float minimum;
};
HWY_INLINE BlockHead LoadHead(const void* block) {
  const hn::CappedTag<float, 4> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> d16;
  HWY_ALIGN float values[4];
  hn::Store(hn::PromoteTo(d, hn::LoadU(d16, static_cast<const hwy::float16_t*>(block))), d, values);
  return {values[0], values[1]};
}

// The lanes' bits of `bits` from bit `first` on, as 16 or 0.
HWY_INLINE VI FifthBits(uint32_t bits, int first) {
  const VI masks = hn::Shl(Int(1), hn::Iota(I32(), first));
  const VI set = hn::And(hn::Set(I32(), static_cast<int32_t>(bits)), masks);
  return hn::IfThenZeroElse(hn::Eq(set, hn::Zero(I32())), Int(16));
}

// 16 bytes of nibbles: store(nibbles, index of the first) for each vector of values.
template <class Store>
HWY_INLINE void ForNibbles(const uint8_t* nibbles, const Store& store) {
  for (int64_t j = 0; j < 16; j += Lanes()) {
    const VI bytes = LoadBytes(nibbles + j);
    store(hn::And(bytes, Int(15)), j);
    store(hn::ShiftRight<4>(bytes), j + 16);
  }
}

HWY_INLINE void Decode(const ggml::Q4_0& block, float* to) {
  const VF scale = Set(LoadHead(&block).scale);
  ForNibbles(block.nibbles, [&](VI q, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(scale, hn::ConvertTo(F32(), hn::Sub(q, Int(8)))), F32(), to + i);
  });
}

HWY_INLINE void Decode(const ggml::Q4_1& block, float* to) {
  const BlockHead head = LoadHead(&block);
  const VF scale = Set(head.scale), minimum = Set(head.minimum);
  ForNibbles(block.nibbles, [&](VI q, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Add(hn::Mul(scale, hn::ConvertTo(F32(), q)), minimum), F32(), to + i);
  });
}

HWY_INLINE void Decode(const ggml::Q5_0& block, float* to) {
  const VF scale = Set(LoadHead(&block).scale);
  uint32_t high;
  std::memcpy(&high, block.high, 4);
  ForNibbles(block.nibbles, [&](VI q, int64_t i) HWY_ATTR {
    const VI whole = hn::Sub(hn::Or(q, FifthBits(high, static_cast<int>(i))), Int(16));
    hn::StoreU(hn::Mul(scale, hn::ConvertTo(F32(), whole)), F32(), to + i);
  });
}

HWY_INLINE void Decode(const ggml::Q5_1& block, float* to) {
  const BlockHead head = LoadHead(&block);
  const VF scale = Set(head.scale), minimum = Set(head.minimum);
  uint32_t high;
  std::memcpy(&high, block.high, 4);
  ForNibbles(block.nibbles, [&](VI q, int64_t i) HWY_ATTR {
    const VI whole = hn::Or(q, FifthBits(high, static_cast<int>(i)));
    hn::StoreU(hn::Add(hn::Mul(scale, hn::ConvertTo(F32(), whole)), minimum), F32(), to + i);
  });
}

HWY_INLINE void Decode(const ggml::Q8_0& block, float* to) {
  const VF scale = Set(LoadHead(&block).scale);
  for (int64_t j = 0; j < 32; j += Lanes()) {
    hn::StoreU(hn::Mul(scale, hn::ConvertTo(F32(), LoadBytes(block.values + j))), F32(), to + j);
  }
}

HWY_INLINE void Decode(const ggml::IQ4_NL& block, float* to) {
  const VF scale = Set(LoadHead(&block).scale);
  const hn::FixedTag<uint8_t, 16> d8;
  const auto table = hn::LoadU(d8, reinterpret_cast<const uint8_t*>(ggml::kNonlinear.data()));
  const auto bytes = hn::LoadU(d8, block.nibbles);
  HWY_ALIGN int8_t values[32];
  auto* stored = reinterpret_cast<uint8_t*>(values);
  hn::Store(hn::TableLookupBytes(table, hn::And(bytes, hn::Set(d8, 15))), d8, stored);
  hn::Store(hn::TableLookupBytes(table, hn::ShiftRight<4>(bytes)), d8, stored + 16);
  for (int64_t j = 0; j < 32; j += Lanes()) {
    hn::StoreU(hn::Mul(scale, hn::ConvertTo(F32(), LoadBytes(values + j))), F32(), to + j);
  }
}

#endif
}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
