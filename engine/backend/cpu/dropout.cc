#include "engine/backend/cpu/dropout.h"

#include <algorithm>

#include "engine/backend/cpu/draws.h"
#include "engine/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/dropout.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

void DropoutRow(const float* x, uint64_t key, uint64_t token, int64_t first_column, float probability,
                int64_t cols, bool accumulate, float* y) {
  const VF scale = Set(1.0f / (1.0f - probability));
  ForUniform(key, token, first_column, cols, [&](auto part, int64_t i, VF uniform) HWY_ATTR {
    const VF scaled = hn::Mul(part.Load(x + i), scale);
    const VF kept = hn::IfThenElseZero(hn::Ge(uniform, Set(probability)), scaled);
    part.Store(accumulate ? hn::Add(part.Load(y + i), kept) : kept, y + i);
  });
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {

HWY_EXPORT(DropoutRow);

void Dropout(ThreadPool& pool, const Tensor& x, const DropoutArgs& args, bool accumulate, const Tensor& y) {
  const uint64_t key = DrawKey(args.seed, args.step, args.site);
  ParallelRows(pool, x.rows(), x.cols(), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t row = args.rows.defined() ? args.rows.i32()[t] : t;
      HWY_DYNAMIC_DISPATCH(DropoutRow)
      (x.f32() + t * x.stride(), key, static_cast<uint64_t>(args.first_token + row), args.first_column,
       args.probability, x.cols(), accumulate, y.f32() + t * y.stride());
    }
  });
}

}  // namespace ftune::cpu
#endif
