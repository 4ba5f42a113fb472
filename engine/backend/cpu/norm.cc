#include "engine/backend/cpu/norm.h"

#include <cmath>
#include <cstring>

#include "engine/backend/cpu/dequant.h"
#include "engine/backend/cpu/reduce.h"
#include "engine/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/norm.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

// One row; returns 1 / rms(x).
float RmsNormRow(const float* x, const float* w, float eps, int64_t cols, float* y) {
  VF squares = hn::Zero(F32());
  ForVectors(cols, [&](auto part, int64_t i) HWY_ATTR {
    const VF v = part.Load(x + i);
    squares = hn::MulAdd(v, v, squares);
  });
  const float rstd = 1.0f / std::sqrt(Sum(squares) / static_cast<float>(cols) + eps);
  ForVectors(cols, [&](auto part, int64_t i) HWY_ATTR {
    part.Store(hn::Mul(hn::Mul(part.Load(x + i), Set(rstd)), part.Load(w + i)), y + i);
  });
  return rstd;
}

// With g = dy * w: dx += rstd * (g - x * rstd² * mean(g * x)).
void RmsNormBackwardRow(const float* dy, const float* x, const float* w, float rstd, int64_t cols,
                        float* dx) {
  VF products = hn::Zero(F32());
  ForVectors(cols, [&](auto part, int64_t i) HWY_ATTR {
    products = hn::MulAdd(hn::Mul(part.Load(dy + i), part.Load(w + i)), part.Load(x + i), products);
  });
  const VF along_x = Set(-rstd * rstd * rstd * (Sum(products) / static_cast<float>(cols)));
  const VF along_g = Set(rstd);
  ForVectors(cols, [&](auto part, int64_t i) HWY_ATTR {
    const VF g = hn::Mul(part.Load(dy + i), part.Load(w + i));
    const VF sum = hn::MulAdd(along_g, g, part.Load(dx + i));
    part.Store(hn::MulAdd(along_x, part.Load(x + i), sum), dx + i);
  });
}

// sum[c] += dy[c] * x[c] * rstd
void RmsNormWeightRow(const float* dy, const float* x, float rstd, int64_t cols, float* sum) {
  ForVectors(cols, [&](auto part, int64_t i) HWY_ATTR {
    const VF normed = hn::Mul(part.Load(x + i), Set(rstd));
    part.Store(hn::MulAdd(part.Load(dy + i), normed, part.Load(sum + i)), sum + i);
  });
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {

HWY_EXPORT(RmsNormRow);
HWY_EXPORT(RmsNormBackwardRow);
HWY_EXPORT(RmsNormWeightRow);

void RmsNormForward(ThreadPool& pool, const Tensor& x, const Tensor& w, float eps, const Tensor& y,
                    const Tensor& rstd) {
  const F32Row weight(w);
  ParallelRows(pool, x.rows(), x.cols(), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      rstd.f32()[t * rstd.stride()] = HWY_DYNAMIC_DISPATCH(RmsNormRow)(
          x.f32() + t * x.stride(), weight.data(), eps, x.cols(), y.f32() + t * y.stride());
    }
  });
}

void RmsNormBackwardInput(ThreadPool& pool, const Tensor& dy, const Tensor& x, const Tensor& w,
                          const Tensor& rstd, const Tensor& dx) {
  const F32Row weight(w);
  ParallelRows(pool, x.rows(), x.cols(), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      HWY_DYNAMIC_DISPATCH(RmsNormBackwardRow)
      (dy.f32() + t * dy.stride(), x.f32() + t * x.stride(), weight.data(), rstd.f32()[t * rstd.stride()],
       x.cols(), dx.f32() + t * dx.stride());
    }
  });
}

void RmsNormBackwardWeight(ThreadPool& pool, const Tensor& dy, const Tensor& x, const Tensor& rstd,
                           const Tensor& dw, const Tensor& workspace) {
  ReduceColumns(pool, x.rows(), x.cols(), workspace, dw.f32(),
                [&](int64_t begin, int64_t end, float* partial) {
                  std::memset(partial, 0, x.cols() * sizeof(float));
                  for (int64_t t = begin; t < end; ++t) {
                    HWY_DYNAMIC_DISPATCH(RmsNormWeightRow)
                    (dy.f32() + t * dy.stride(), x.f32() + t * x.stride(), rstd.f32()[t * rstd.stride()],
                     x.cols(), partial);
                  }
                });
}

}  // namespace ftune::cpu
#endif
