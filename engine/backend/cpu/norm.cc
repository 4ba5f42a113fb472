#include "engine/backend/cpu/norm.h"

#include <cmath>
#include <cstring>
#include <vector>

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

// One row, `groups` times `width` elements.
void RmsNormRow(const float* x, const float* scale, float eps, int64_t groups, int64_t width, float* y,
                float* rstds) {
  for (int64_t group = 0; group < groups; ++group, x += width, y += width) {
    VF squares = hn::Zero(F32());
    ForVectors(width, [&](auto part, int64_t i) HWY_ATTR {
      const VF v = part.Load(x + i);
      squares = hn::MulAdd(v, v, squares);
    });
    const float rstd = 1.0f / std::sqrt(Sum(squares) / static_cast<float>(width) + eps);
    ForVectors(width, [&](auto part, int64_t i) HWY_ATTR {
      part.Store(hn::Mul(hn::Mul(part.Load(x + i), Set(rstd)), part.Load(scale + i)), y + i);
    });
    rstds[group] = rstd;
  }
}

// With g = dy * scale: dx = rstd * (g - x * rstd² * mean(g * x)), or dx += that.
template <bool kAccumulate>
HWY_INLINE void RmsNormBackwardGroup(const float* dy, const float* x, const float* scale, float rstd,
                                     int64_t width, float* dx) {
  VF products = hn::Zero(F32());
  ForVectors(width, [&](auto part, int64_t i) HWY_ATTR {
    products = hn::MulAdd(hn::Mul(part.Load(dy + i), part.Load(scale + i)), part.Load(x + i), products);
  });
  const VF along_x = Set(-rstd * rstd * rstd * (Sum(products) / static_cast<float>(width)));
  const VF along_g = Set(rstd);
  ForVectors(width, [&](auto part, int64_t i) HWY_ATTR {
    const VF g = hn::Mul(part.Load(dy + i), part.Load(scale + i));
    const VF sum = kAccumulate ? hn::MulAdd(along_g, g, part.Load(dx + i)) : hn::Mul(along_g, g);
    part.Store(hn::MulAdd(along_x, part.Load(x + i), sum), dx + i);
  });
}

void RmsNormBackwardRow(const float* dy, const float* x, const float* scale, const float* rstds,
                        int64_t groups, int64_t width, bool accumulate, float* dx) {
  for (int64_t group = 0; group < groups; ++group, dy += width, x += width, dx += width) {
    if (accumulate) {
      RmsNormBackwardGroup<true>(dy, x, scale, rstds[group], width, dx);
    } else {
      RmsNormBackwardGroup<false>(dy, x, scale, rstds[group], width, dx);
    }
  }
}

// sum[c] += dy[c] * x[c] * rstd for each group of a row.
void RmsNormWeightRow(const float* dy, const float* x, const float* rstds, int64_t groups, int64_t width,
                      float* sum) {
  for (int64_t group = 0; group < groups; ++group, dy += width, x += width) {
    const VF rstd = Set(rstds[group]);
    ForVectors(width, [&](auto part, int64_t i) HWY_ATTR {
      const VF normed = hn::Mul(part.Load(x + i), rstd);
      part.Store(hn::MulAdd(part.Load(dy + i), normed, part.Load(sum + i)), sum + i);
    });
  }
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {
namespace {

HWY_EXPORT(RmsNormRow);
HWY_EXPORT(RmsNormBackwardRow);
HWY_EXPORT(RmsNormWeightRow);

// What a group's normalised values are multiplied by: w or 1 + w.
class NormScale {
 public:
  NormScale(const Tensor& w, bool unit_offset) : w_(w), data_(w_.data()) {
    if (!unit_offset) return;
    shifted_.assign(data_, data_ + w.size());
    for (float& value : shifted_) value += 1.0f;
    data_ = shifted_.data();
  }
  const float* data() const { return data_; }

 private:
  F32Row w_;
  std::vector<float> shifted_;
  const float* data_;
};

}  // namespace

void RmsNormForward(ThreadPool& pool, const Tensor& x, const Tensor& w, const NormOptions& options,
                    const Tensor& y, const Tensor& rstd) {
  const NormScale scale(w, options.unit_offset);
  ParallelRows(pool, x.rows(), x.cols(), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      HWY_DYNAMIC_DISPATCH(RmsNormRow)
      (x.f32() + t * x.stride(), scale.data(), options.eps, options.groups, x.cols() / options.groups,
       y.f32() + t * y.stride(), rstd.f32() + t * rstd.stride());
    }
  });
}

void RmsNormBackwardInput(ThreadPool& pool, const Tensor& dy, const Tensor& x, const Tensor& w,
                          const NormOptions& options, const Tensor& rstd, bool accumulate, const Tensor& dx) {
  const NormScale scale(w, options.unit_offset);
  ParallelRows(pool, x.rows(), x.cols(), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      HWY_DYNAMIC_DISPATCH(RmsNormBackwardRow)
      (dy.f32() + t * dy.stride(), x.f32() + t * x.stride(), scale.data(), rstd.f32() + t * rstd.stride(),
       options.groups, x.cols() / options.groups, accumulate, dx.f32() + t * dx.stride());
    }
  });
}

void RmsNormBackwardWeight(ThreadPool& pool, const Tensor& dy, const Tensor& x, const NormOptions& options,
                           const Tensor& rstd, const Tensor& dw, const Tensor& workspace) {
  const int64_t width = x.cols() / options.groups;
  ReduceColumns(pool, x.rows(), width, workspace, dw.f32(), [&](int64_t begin, int64_t end, float* partial) {
    std::memset(partial, 0, width * sizeof(float));
    for (int64_t t = begin; t < end; ++t) {
      HWY_DYNAMIC_DISPATCH(RmsNormWeightRow)
      (dy.f32() + t * dy.stride(), x.f32() + t * x.stride(), rstd.f32() + t * rstd.stride(), options.groups,
       width, partial);
    }
  });
}

}  // namespace ftune::cpu
#endif
