#include "engine/backend/cpu/weight_update.h"

#include "base/random.h"
#include "engine/backend/cpu/dequant.h"
#include "engine/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/weight_update.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/philox-inl.h"
#include "engine/backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

void RoundStochasticallyRun(uint64_t key, int64_t first, const float* values, int64_t count, uint16_t* bf16) {
  const hn::Rebind<uint16_t, U32> half;
  HWY_ALIGN uint32_t draws[64];
  HWY_ALIGN uint16_t rounded[16];
  const int64_t run = 4 * Lanes();
  int64_t group = first / 4;  // of four draws
  for (int64_t done = 0; done < count; group += Lanes()) {
    PhiloxBlocks(key, 0, static_cast<uint32_t>(group), draws);
    const int64_t skipped = first + done - 4 * group;
    const int64_t taken = std::min(run - skipped, count - done);
    ForVectors(taken, [&](auto part, int64_t i) HWY_ATTR {
      const VU bits = hn::BitCast(U32(), part.Load(values + done + i));
      const VU noise = hn::ShiftRight<16>(hn::LoadU(U32(), draws + skipped + i));
      // Infinities and NaN have no neighbour above; a NaN keeps its quiet bit among the upper half.
      const VU exponent = hn::Set(U32(), 0x7F800000u);
      const auto finite = hn::Ne(hn::And(bits, exponent), exponent);
      const VU sum = hn::Add(bits, hn::IfThenElseZero(finite, noise));
      hn::Store(hn::TruncateTo(half, hn::ShiftRight<16>(sum)), half, rounded);
      std::memcpy(bf16 + done + i, rounded, std::min(Lanes(), taken - i) * sizeof(uint16_t));
    });
    done += taken;
  }
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {

HWY_EXPORT(RoundStochasticallyRun);

void RoundStochastically(uint64_t key, int64_t first, const float* values, int64_t count, uint16_t* bf16) {
  HWY_DYNAMIC_DISPATCH(RoundStochasticallyRun)(key, first, values, count, bf16);
}

uint64_t RoundingKey(const RoundingDraws& draws) {
  const auto words = Philox(draws.seed, draws.step, draws.site);
  return uint64_t{words[1]} << 32 | words[0];
}

WeightPiece::WeightPiece(const UpdateArgs& args, int64_t begin, int64_t count)
    : args_(args), begin_(begin), count_(count) {
  const Tensor& weights = args.weights;
  if (weights.dtype() == DType::kF32) {
    data_ = weights.f32() + begin;
    return;
  }
  data_ = widened_;
  ToF32(weights.dtype(), weights.bytes() + BytesFor(weights.dtype(), begin), count, widened_);
}

void WeightPiece::Store(uint64_t rounding_key) {
  if (data_ == widened_) {
    RoundStochastically(rounding_key, args_.draws.first + begin_, data_, count_,
                        reinterpret_cast<uint16_t*>(args_.weights.bytes()) + begin_);
  } else if (args_.low.defined()) {
    const DType type = args_.low.dtype();
    FromF32(type, data_, count_, args_.low.bytes() + BytesFor(type, begin_));
  }
}

}  // namespace ftune::cpu
#endif
