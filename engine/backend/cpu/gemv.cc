#include "engine/backend/cpu/gemv.h"

#include <algorithm>

#include "engine/backend/cpu/dequant.h"
#include "engine/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/gemv.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

// sums[i] += a[i] · b over `count` values, for `rows` rows of a.
template <int kRows>
HWY_INLINE void Dots(const float* a, int64_t a_stride, const float* b, int64_t count, float* sums) {
  // Two accumulators a row hide the latency of the addition.
  VF even[kRows], odd[kRows];
  for (int i = 0; i < kRows; ++i) even[i] = odd[i] = hn::Zero(F32());
  const int64_t lanes = Lanes();
  int64_t p = 0;
  for (; p + 2 * lanes <= count; p += 2 * lanes) {
    const VF b0 = hn::LoadU(F32(), b + p);
    const VF b1 = hn::LoadU(F32(), b + p + lanes);
    for (int i = 0; i < kRows; ++i) {
      even[i] = hn::MulAdd(hn::LoadU(F32(), a + i * a_stride + p), b0, even[i]);
      odd[i] = hn::MulAdd(hn::LoadU(F32(), a + i * a_stride + p + lanes), b1, odd[i]);
    }
  }
  ForVectors(count - p, [&](auto part, int64_t q) HWY_ATTR {
    const VF rest = part.Load(b + p + q);
    for (int i = 0; i < kRows; ++i) even[i] = hn::MulAdd(part.Load(a + i * a_stride + p + q), rest, even[i]);
  });
  for (int i = 0; i < kRows; ++i) sums[i] += Sum(hn::Add(even[i], odd[i]));
}

void DotsOf(int64_t rows, const float* a, int64_t a_stride, const float* b, int64_t count, float* sums) {
  switch (rows) {
    case 1:
      return Dots<1>(a, a_stride, b, count, sums);
    case 2:
      return Dots<2>(a, a_stride, b, count, sums);
    case 3:
      return Dots<3>(a, a_stride, b, count, sums);
    default:
      return Dots<4>(a, a_stride, b, count, sums);
  }
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {

HWY_EXPORT(DotsOf);

void Gemv(ThreadPool& pool, const MatMulArgs& args) {
  const int64_t m = args.m(), k = args.k();
  const DType type = args.b.dtype();
  ParallelRows(pool, args.n(), k, [&](int64_t begin, int64_t end) {
    constexpr int64_t kRun = 2048;  // a multiple of every block size
    float converted[kRun];
    for (int64_t row = begin; row < end; ++row) {
      float sums[kGemvRows] = {};
      if (type == DType::kF32) {
        HWY_DYNAMIC_DISPATCH(DotsOf)
        (m, args.a.f32(), args.a.stride(), args.b.f32() + row * args.b.stride(), k, sums);
      } else {
        for (int64_t p = 0; p < k; p += kRun) {
          const int64_t count = std::min(kRun, k - p);
          ReadRow(args.b, row, p, count, converted);
          HWY_DYNAMIC_DISPATCH(DotsOf)(m, args.a.f32() + p, args.a.stride(), converted, count, sums);
        }
      }
      for (int64_t i = 0; i < m; ++i) {
        float* c = args.c.f32() + i * args.c.stride() + row;
        *c = args.alpha * sums[i] + (args.beta == 0.0f ? 0.0f : args.beta * *c);
      }
    }
  });
}

}  // namespace ftune::cpu
#endif
