#include <algorithm>
#include <array>
#include <cmath>

#include "base/dynamic_map.h"
#include "engine/backend/cpu/optimizers.h"
#include "engine/backend/cpu/targets.h"
#include "engine/backend/cpu/weight_update.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/adamw_8bit.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/adamw-inl.h"

namespace ftune::cpu {
#ifndef FTUNE_ENGINE_BACKEND_CPU_ADAMW_8BIT_ONCE_
#define FTUNE_ENGINE_BACKEND_CPU_ADAMW_8BIT_ONCE_

// One block of a moment: codes and their scale.
struct CodedBlock {
  const DynamicMap& map;
  uint8_t* codes;
  float* scale;
};

#endif
}  // namespace ftune::cpu

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

using Bytes = hn::Rebind<uint8_t, F32>;

// A block's values; past `count` they are 0.
HWY_INLINE void Decode(const CodedBlock& block, int64_t count, float* values) {
  alignas(64) uint8_t codes[kStateBlock] = {};
  std::memcpy(codes, block.codes, count);
  const VF scale = Set(*block.scale);
  for (int64_t i = 0; i < kStateBlock; i += Lanes()) {
    const VI index = hn::PromoteTo(I32(), hn::LoadU(Bytes(), codes + i));
    hn::StoreU(hn::Mul(hn::GatherIndex(F32(), block.map.values().data(), index), scale), F32(), values + i);
  }
  std::fill(values + count, values + kStateBlock, 0.0f);
}

// Codes of the nearest values and the block's new scale, NaN where a value is not finite.
HWY_INLINE void Encode(const float* values, int64_t count, const CodedBlock& block) {
  VF largest = Set(0.0f), zero = Set(0.0f);
  for (int64_t i = 0; i < kStateBlock; i += Lanes()) {
    const VF v = hn::LoadU(F32(), values + i);
    largest = hn::Max(largest, hn::Abs(v));
    zero = hn::MulAdd(v, Set(0.0f), zero);
  }
  const bool finite = Sum(zero) == 0.0f;
  *block.scale = finite ? MaxLane(largest) : NAN;
  constexpr float kSmallest = 1e-38f;  // as bitsandbytes: below it all are 0
  const VF inverse = Set(1.0f / std::max(*block.scale, kSmallest));
  alignas(64) uint8_t codes[kStateBlock];
  const float* midpoints = block.map.midpoints().data();
  for (int64_t i = 0; i < kStateBlock; i += Lanes()) {
    const VF v = hn::Mul(hn::LoadU(F32(), values + i), inverse);
    VI code = hn::Zero(I32());  // midpoints below v, found by halves
    for (int32_t step = DynamicMap::kSize / 2; step > 0; step /= 2) {
      const VI next = hn::Add(code, hn::Set(I32(), step));
      const VF midpoint = hn::GatherIndex(F32(), midpoints, hn::Sub(next, hn::Set(I32(), 1)));
      code = hn::IfThenElse(hn::RebindMask(I32(), hn::Gt(v, midpoint)), next, code);
    }
    hn::StoreU(hn::DemoteTo(Bytes(), code), Bytes(), codes + i);
  }
  std::memcpy(block.codes, codes, count);
}

void AdamW8bitBlock(const AdamWScalars& s, int64_t count, const float* gradients, float* weights,
                    const CodedBlock& moment1, const CodedBlock& moment2) {
  alignas(64) float m[kStateBlock];
  alignas(64) float v[kStateBlock];
  Decode(moment1, count, m);
  Decode(moment2, count, v);
  ForVectors(count, [&](auto part, int64_t i) HWY_ATTR {
    VF m_i = part.Load(m + i);
    VF v_i = part.Load(v + i);
    part.Store(AdamWStep(s, part.Load(gradients + i), part.Load(weights + i), m_i, v_i), weights + i);
    part.Store(m_i, m + i);
    part.Store(v_i, v + i);
  });
  Encode(m, count, moment1);
  Encode(v, count, moment2);
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {

HWY_EXPORT(AdamW8bitBlock);

void AdamW8bit(ThreadPool& pool, const AdamW8bitArgs& args) {
  const AdamWScalars scalars = MakeAdamWScalars(args);
  const float* gradients = args.update.gradients.f32();
  const auto block_of = [](const DynamicMap& map, const Tensor& codes, const Tensor& scales, int64_t begin) {
    return CodedBlock{map, reinterpret_cast<uint8_t*>(codes.bytes()) + begin,
                      scales.f32() + begin / kStateBlock};
  };
  UpdatePieces(pool, args.update, [&](int64_t begin, int64_t count, float* weights) {
    for (int64_t i = 0; i < count; i += kStateBlock) {
      HWY_DYNAMIC_DISPATCH(AdamW8bitBlock)
      (scalars, std::min(kStateBlock, count - i), gradients + begin + i, weights + i,
       block_of(DynamicMap::Signed(), args.moment1, args.scale1, begin + i),
       block_of(DynamicMap::Unsigned(), args.moment2, args.scale2, begin + i));
    }
  });
}

}  // namespace ftune::cpu
#endif
