#include "engine/backend/cpu/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/reduce.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

void AddToKernel(const float* from, int64_t count, float* to) {
  ForVectors(count, [&](auto part, int64_t i)
                        HWY_ATTR { part.Store(hn::Add(part.Load(to + i), part.Load(from + i)), to + i); });
}

void AddProductKernel(const float* a, const float* b, int64_t count, float* to) {
  ForVectors(count, [&](auto part, int64_t i) HWY_ATTR {
    part.Store(hn::MulAdd(part.Load(a + i), part.Load(b + i), part.Load(to + i)), to + i);
  });
}

double SumSquaresKernel(const float* x, int64_t count) {
  const hn::CappedTag<double, 8> d;
  const hn::Rebind<float, decltype(d)> df;
  const int64_t lanes = hn::Lanes(d);
  const auto square = [&](const float* at) HWY_ATTR {
    const auto v = hn::PromoteTo(d, hn::LoadU(df, at));
    return hn::Mul(v, v);
  };
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d), sum2 = hn::Zero(d), sum3 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    sum0 = hn::Add(sum0, square(x + i));
    sum1 = hn::Add(sum1, square(x + i + lanes));
    sum2 = hn::Add(sum2, square(x + i + 2 * lanes));
    sum3 = hn::Add(sum3, square(x + i + 3 * lanes));
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
  for (; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {
namespace {

HWY_EXPORT(AddToKernel);
HWY_EXPORT(AddProductKernel);
HWY_EXPORT(SumSquaresKernel);

// Over elements [begin, end) of x, counted row by row.
double SumSquaresOfRange(const Tensor& x, int64_t begin, int64_t end) {
  const int64_t cols = x.contiguous() ? x.size() : x.cols();
  double sum = 0.0;
  while (begin < end) {
    const int64_t row = begin / cols;
    const int64_t col = begin % cols;
    const int64_t count = std::min(cols - col, end - begin);
    sum += HWY_DYNAMIC_DISPATCH(SumSquaresKernel)(x.f32() + row * x.stride() + col, count);
    begin += count;
  }
  return sum;
}

}  // namespace

ReductionChunks ChunksOf(int64_t rows) {
  constexpr int64_t kLeastRows = 64;
  constexpr int64_t kMostChunks = 64;
  const int64_t rows_per_chunk = std::max(kLeastRows, (rows + kMostChunks - 1) / kMostChunks);
  return {rows_per_chunk, (rows + rows_per_chunk - 1) / rows_per_chunk};
}

int64_t ColumnReductionBytes(int64_t rows, int64_t cols) {
  return ChunksOf(rows).chunks * cols * static_cast<int64_t>(sizeof(double));
}

void AddTo(const float* from, int64_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(AddToKernel)(from, count, to);
}

void BiasBackward(ThreadPool& pool, const Tensor& dy, const Tensor& dbias, const Tensor& workspace) {
  ReduceColumns(pool, dy.rows(), dy.cols(), workspace, dbias.f32(),
                [&](int64_t begin, int64_t end, float* partial) {
                  std::memcpy(partial, dy.f32() + begin * dy.stride(), dy.cols() * sizeof(float));
                  for (int64_t t = begin + 1; t < end; ++t)
                    AddTo(dy.f32() + t * dy.stride(), dy.cols(), partial);
                });
}

void ColumnDot(ThreadPool& pool, const Tensor& a, const Tensor& b, const Tensor& out,
               const Tensor& workspace) {
  ReduceColumns(pool, a.rows(), a.cols(), workspace, out.f32(),
                [&](int64_t begin, int64_t end, float* partial) {
                  std::memset(partial, 0, a.cols() * sizeof(float));
                  for (int64_t t = begin; t < end; ++t) {
                    HWY_DYNAMIC_DISPATCH(AddProductKernel)
                    (a.f32() + t * a.stride(), b.f32() + t * b.stride(), a.cols(), partial);
                  }
                });
}

void RowNorms(ThreadPool& pool, const Tensor& x, const Tensor& norms) {
  ParallelRows(pool, x.rows(), x.cols(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const double squares = HWY_DYNAMIC_DISPATCH(SumSquaresKernel)(x.f32() + row * x.stride(), x.cols());
      norms.f32()[row] = static_cast<float>(std::sqrt(squares));
    }
  });
}

void SumSquares(ThreadPool& pool, const Tensor& x, const Tensor& sum, const Tensor& workspace) {
  const ReductionChunks cut = ChunksOf(x.size());
  auto* partials = reinterpret_cast<double*>(workspace.bytes());
  ParallelRanges(pool, x.size(), cut.rows_per_chunk, [&](int64_t begin, int64_t end) {
    partials[begin / cut.rows_per_chunk] = SumSquaresOfRange(x, begin, end);
  });
  auto* total = reinterpret_cast<double*>(sum.bytes());
  for (int64_t chunk = 0; chunk < cut.chunks; ++chunk) *total += partials[chunk];
}

void ClipScale(const Tensor& sum, double loss_scale, float max_norm, const Tensor& scale) {
  const double norm = std::sqrt(*reinterpret_cast<const double*>(sum.bytes())) / loss_scale;
  const double factor = max_norm / (norm + 1e-6);
  *scale.f32() = static_cast<float>((factor > 1.0 ? 1.0 : factor) / loss_scale);  // NaN stays NaN
}

}  // namespace ftune::cpu
#endif
