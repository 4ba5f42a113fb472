#include "engine/backend/cpu/layer_norm.h"

#include <cmath>
#include <cstring>

#include "engine/backend/cpu/dequant.h"
#include "engine/backend/cpu/reduce.h"
#include "engine/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/layer_norm.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

// One row; stats = mean, 1 / sqrt(var + eps). The variance is taken about the mean: the difference of two
// large sums would lose it.
void LayerNormRow(const float* x, const float* w, const float* b, float eps, int64_t cols, float* y,
                  float* stats) {
  VF sum = hn::Zero(F32());
  ForVectors(cols, [&](auto part, int64_t i) HWY_ATTR { sum = hn::Add(sum, part.Load(x + i)); });
  const VF mean = Set(Sum(sum) / static_cast<float>(cols));
  VF squares = hn::Zero(F32());
  ForVectors(cols, [&](auto part, int64_t i) HWY_ATTR {
    const VF distance = part.Keep(hn::Sub(part.Load(x + i), mean), hn::Zero(F32()));
    squares = hn::MulAdd(distance, distance, squares);
  });
  const float rstd = 1.0f / std::sqrt(Sum(squares) / static_cast<float>(cols) + eps);
  ForVectors(cols, [&](auto part, int64_t i) HWY_ATTR {
    const VF normed = hn::Mul(hn::Sub(part.Load(x + i), mean), Set(rstd));
    part.Store(hn::MulAdd(normed, part.Load(w + i), part.Load(b + i)), y + i);
  });
  stats[0] = hn::GetLane(mean);
  stats[1] = rstd;
}

// With g = dy * w and n the normalised x: dx += rstd * (g - mean(g) - n * mean(g * n)).
void LayerNormBackwardRow(const float* dy, const float* x, const float* w, const float* stats, int64_t cols,
                          float* dx) {
  const VF mean = Set(stats[0]), rstd = Set(stats[1]);
  VF sum = hn::Zero(F32()), products = hn::Zero(F32());
  ForVectors(cols, [&](auto part, int64_t i) HWY_ATTR {
    const VF g = hn::Mul(part.Load(dy + i), part.Load(w + i));
    sum = hn::Add(sum, g);
    products = hn::MulAdd(g, hn::Mul(hn::Sub(part.Load(x + i), mean), rstd), products);
  });
  const VF g_mean = Set(Sum(sum) / static_cast<float>(cols));
  const VF along_n = Set(Sum(products) / static_cast<float>(cols));
  ForVectors(cols, [&](auto part, int64_t i) HWY_ATTR {
    const VF g = hn::Mul(part.Load(dy + i), part.Load(w + i));
    const VF normed = hn::Mul(hn::Sub(part.Load(x + i), mean), rstd);
    const VF gradient = hn::NegMulAdd(normed, along_n, hn::Sub(g, g_mean));
    part.Store(hn::MulAdd(rstd, gradient, part.Load(dx + i)), dx + i);
  });
}

// sum[c] += dy[c] * (x[c] - mean) * rstd
void LayerNormWeightRow(const float* dy, const float* x, const float* stats, int64_t cols, float* sum) {
  const VF mean = Set(stats[0]), rstd = Set(stats[1]);
  ForVectors(cols, [&](auto part, int64_t i) HWY_ATTR {
    const VF normed = hn::Mul(hn::Sub(part.Load(x + i), mean), rstd);
    part.Store(hn::MulAdd(part.Load(dy + i), normed, part.Load(sum + i)), sum + i);
  });
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {

HWY_EXPORT(LayerNormRow);
HWY_EXPORT(LayerNormBackwardRow);
HWY_EXPORT(LayerNormWeightRow);

void LayerNormForward(ThreadPool& pool, const Tensor& x, const Tensor& w, const Tensor& b, float eps,
                      const Tensor& y, const Tensor& stats) {
  const F32Row weight(w), bias(b);
  ParallelRows(pool, x.rows(), x.cols(), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      HWY_DYNAMIC_DISPATCH(LayerNormRow)
      (x.f32() + t * x.stride(), weight.data(), bias.data(), eps, x.cols(), y.f32() + t * y.stride(),
       stats.f32() + t * stats.stride());
    }
  });
}

void LayerNormBackwardInput(ThreadPool& pool, const Tensor& dy, const Tensor& x, const Tensor& w,
                            const Tensor& stats, const Tensor& dx) {
  const F32Row weight(w);
  ParallelRows(pool, x.rows(), x.cols(), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      HWY_DYNAMIC_DISPATCH(LayerNormBackwardRow)
      (dy.f32() + t * dy.stride(), x.f32() + t * x.stride(), weight.data(), stats.f32() + t * stats.stride(),
       x.cols(), dx.f32() + t * dx.stride());
    }
  });
}

void LayerNormBackwardWeight(ThreadPool& pool, const Tensor& dy, const Tensor& x, const Tensor& stats,
                             const Tensor& dw, const Tensor& db, const Tensor& workspace) {
  if (dw.defined()) {
    ReduceColumns(pool, x.rows(), x.cols(), workspace, dw.f32(),
                  [&](int64_t begin, int64_t end, float* partial) {
                    std::memset(partial, 0, x.cols() * sizeof(float));
                    for (int64_t t = begin; t < end; ++t) {
                      HWY_DYNAMIC_DISPATCH(LayerNormWeightRow)
                      (dy.f32() + t * dy.stride(), x.f32() + t * x.stride(), stats.f32() + t * stats.stride(),
                       x.cols(), partial);
                    }
                  });
  }
  if (db.defined()) BiasBackward(pool, dy, db, workspace);
}

}  // namespace ftune::cpu
#endif
