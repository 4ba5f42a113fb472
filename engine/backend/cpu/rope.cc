#include "engine/backend/cpu/rope.h"

#include "engine/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/rope.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

// All heads of one token; `angles` holds half cosines, then half sines.
void RopeRow(const float* angles, int64_t half, float sign, int64_t head_dim, int64_t cols, float* x) {
  for (float* head = x; head < x + cols; head += head_dim) {
    ForVectors(half, [&](auto part, int64_t i) HWY_ATTR {
      const VF cosine = part.Load(angles + i);
      const VF sine = hn::Mul(part.Load(angles + half + i), Set(sign));
      const VF a = part.Load(head + i);
      const VF b = part.Load(head + half + i);
      part.Store(hn::NegMulAdd(b, sine, hn::Mul(a, cosine)), head + i);
      part.Store(hn::MulAdd(a, sine, hn::Mul(b, cosine)), head + half + i);
    });
  }
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {

HWY_EXPORT(RopeRow);

void Rope(ThreadPool& pool, const Tensor& x, const Tensor& positions, const Tensor& table, int64_t head_dim,
          bool inverse) {
  ParallelRows(pool, x.rows(), x.cols(), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      HWY_DYNAMIC_DISPATCH(RopeRow)
      (table.f32() + positions.i32()[t] * table.stride(), table.cols() / 2, inverse ? -1.0f : 1.0f, head_dim,
       x.cols(), x.f32() + t * x.stride());
    }
  });
}

}  // namespace ftune::cpu
#endif
