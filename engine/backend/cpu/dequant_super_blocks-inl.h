// ggml's super-blocks of 256 values to fp32 (base/ggml_layout.h); compiled once for each instruction set. A
// group's scale and minimum are rounded, then each value's product; the products are exact where something is
// taken away from them.

#if defined(FTUNE_ENGINE_BACKEND_CPU_DEQUANT_SUPER_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FTUNE_ENGINE_BACKEND_CPU_DEQUANT_SUPER_BLOCKS_INL_H_
#undef FTUNE_ENGINE_BACKEND_CPU_DEQUANT_SUPER_BLOCKS_INL_H_
#else
#define FTUNE_ENGINE_BACKEND_CPU_DEQUANT_SUPER_BLOCKS_INL_H_
#endif

#include "engine/backend/cpu/dequant_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

// At most 16 lanes: a vector never reaches over a group of 16 values, nor over 32 bytes.
template <class Op>
HWY_INLINE void ForLanes(int64_t count, const Op& op) {
  for (int64_t j = 0; j < count; j += Lanes()) op(j);
}

HWY_INLINE void StoreScaled(VF scale, VI q, float* to) {
  hn::StoreU(hn::Mul(scale, hn::ConvertTo(F32(), q)), F32(), to);
}
HWY_INLINE void StoreScaled(VF scale, VI q, VF minimum, float* to) {
  hn::StoreU(hn::Sub(hn::Mul(scale, hn::ConvertTo(F32(), q)), minimum), F32(), to);
}

HWY_INLINE void Decode(const ggml::Q2_K& block, float* to) {
  const float scale = block.scale.value(), minimum = block.minimum.value();
  float scales[16], minima[16];
  for (int g = 0; g < 16; ++g) {
    scales[g] = scale * static_cast<float>(block.scales[g] & 15);
    minima[g] = minimum * static_cast<float>(block.scales[g] >> 4);
  }
  for (int half = 0; half < 2; ++half) {
    ForLanes(32, [&](int64_t j) HWY_ATTR {
      VI pairs = LoadBytes(block.pairs + 32 * half + j);
      for (int k = 0; k < 4; ++k, pairs = hn::ShiftRight<2>(pairs)) {
        const int64_t i = 128 * half + 32 * k + j;
        StoreScaled(Set(scales[i / 16]), hn::And(pairs, Int(3)), Set(minima[i / 16]), to + i);
      }
    });
  }
}

HWY_INLINE void Decode(const ggml::Q3_K& block, float* to) {
  const float scale = block.scale.value();
  float scales[16];
  for (int g = 0; g < 16; ++g) scales[g] = scale * static_cast<float>(ggml::SixBitScale(block.scales, g));
  ForLanes(32, [&](int64_t j) HWY_ATTR {
    VI high = LoadBytes(block.high + j);
    for (int half = 0; half < 2; ++half) {
      VI pairs = LoadBytes(block.pairs + 32 * half + j);
      for (int k = 0; k < 4; ++k) {
        const int64_t i = 128 * half + 32 * k + j;
        const VI third = hn::ShiftLeft<2>(hn::And(high, Int(1)));
        const VI q = hn::Sub(hn::Or(hn::And(pairs, Int(3)), third), Int(4));
        StoreScaled(Set(scales[i / 16]), q, to + i);
        pairs = hn::ShiftRight<2>(pairs);
        high = hn::ShiftRight<1>(high);
      }
    }
  });
}

HWY_INLINE VI HighBits(const ggml::Q4_K&, int, int64_t) { return hn::Zero(I32()); }
// The fifth bits of the values 32 `group` + j …
HWY_INLINE VI HighBits(const ggml::Q5_K& block, int group, int64_t j) {
  const VI bytes = hn::ShiftRightSame(LoadBytes(block.high + j), group);
  return hn::ShiftLeft<4>(hn::And(bytes, Int(1)));
}

template <class Block>  // Q4_K or Q5_K
HWY_INLINE void DecodePairs(const Block& block, float* to) {
  const float scale = block.scale.value(), minimum = block.minimum.value();
  for (int low = 0; low < 8; low += 2) {
    VF scales[2], minima[2];
    for (int g = 0; g < 2; ++g) {
      const ggml::ScaleAndMinimum pair = ggml::SixBitPair(block.scales, low + g);
      scales[g] = Set(scale * static_cast<float>(pair.scale));
      minima[g] = Set(minimum * static_cast<float>(pair.minimum));
    }
    ForLanes(32, [&](int64_t j) HWY_ATTR {
      const VI bytes = LoadBytes(block.nibbles + 16 * low + j);
      const VI first = hn::Or(hn::And(bytes, Int(15)), HighBits(block, low, j));
      const VI second = hn::Or(hn::ShiftRight<4>(bytes), HighBits(block, low + 1, j));
      StoreScaled(scales[0], first, minima[0], to + 32 * low + j);
      StoreScaled(scales[1], second, minima[1], to + 32 * low + 32 + j);
    });
  }
}
HWY_INLINE void Decode(const ggml::Q4_K& block, float* to) { DecodePairs(block, to); }
HWY_INLINE void Decode(const ggml::Q5_K& block, float* to) { DecodePairs(block, to); }

HWY_INLINE void Decode(const ggml::Q6_K& block, float* to) {
  const float scale = block.scale.value();
  float scales[16];
  for (int g = 0; g < 16; ++g) scales[g] = scale * static_cast<float>(block.scales[g]);
  for (int half = 0; half < 2; ++half) {
    ForLanes(32, [&](int64_t j) HWY_ATTR {
      const VI even = LoadBytes(block.nibbles + 64 * half + j);
      const VI odd = LoadBytes(block.nibbles + 64 * half + 32 + j);
      const VI nibbles[4] = {hn::And(even, Int(15)), hn::And(odd, Int(15)), hn::ShiftRight<4>(even),
                             hn::ShiftRight<4>(odd)};
      VI pairs = LoadBytes(block.pairs + 32 * half + j);
      for (int k = 0; k < 4; ++k, pairs = hn::ShiftRight<2>(pairs)) {
        const int64_t i = 128 * half + 32 * k + j;
        const VI high = hn::ShiftLeft<4>(hn::And(pairs, Int(3)));
        StoreScaled(Set(scales[i / 16]), hn::Sub(hn::Or(nibbles[k], high), Int(32)), to + i);
      }
    });
  }
}

#endif
}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
