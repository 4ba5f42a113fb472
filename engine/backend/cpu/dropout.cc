#include "engine/backend/cpu/dropout.h"

#include <algorithm>

#include "base/random.h"
#include "engine/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/dropout.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/philox-inl.h"
#include "engine/backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

void DropoutRow(const float* x, uint64_t key, uint64_t token, float probability, int64_t cols,
                bool accumulate, float* y) {
  const VF scale = Set(1.0f / (1.0f - probability));
  HWY_ALIGN uint32_t draws[64];
  const int64_t run = 4 * Lanes();
  for (int64_t begin = 0; begin < cols; begin += run) {
    PhiloxBlocks(key, token, static_cast<uint32_t>(begin / 4), draws);
    ForVectors(std::min(run, cols - begin), [&](auto part, int64_t i) HWY_ATTR {
      const VI bits = hn::BitCast(I32(), hn::ShiftRight<8>(hn::LoadU(U32(), draws + i)));
      const VF uniform = hn::Mul(hn::ConvertTo(F32(), bits), Set(0x1p-24f));
      const VF scaled = hn::Mul(part.Load(x + begin + i), scale);
      const VF kept = hn::IfThenElseZero(hn::Ge(uniform, Set(probability)), scaled);
      part.Store(accumulate ? hn::Add(part.Load(y + begin + i), kept) : kept, y + begin + i);
    });
  }
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {

HWY_EXPORT(DropoutRow);

void Dropout(ThreadPool& pool, const Tensor& x, const DropoutArgs& args, bool accumulate, const Tensor& y) {
  const auto words = Philox(args.seed, args.step, args.site);
  const uint64_t key = uint64_t{words[1]} << 32 | words[0];
  ParallelRows(pool, x.rows(), x.cols(), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      HWY_DYNAMIC_DISPATCH(DropoutRow)
      (x.f32() + t * x.stride(), key, static_cast<uint64_t>(args.first_token + t), args.probability, x.cols(),
       accumulate, y.f32() + t * y.stride());
    }
  });
}

}  // namespace ftune::cpu
#endif
