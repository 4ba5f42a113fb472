#include "engine/backend/cpu/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/cross_entropy.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

// Largest of x[0, count); a NaN among them may be passed over.
HWY_INLINE float MaxOf(const float* x, int64_t count) {
  const VF lowest = Set(-std::numeric_limits<float>::infinity());
  VF max = lowest;
  ForVectors(count,
             [&](auto part, int64_t i) HWY_ATTR { max = hn::Max(max, part.Keep(part.Load(x + i), lowest)); });
  return MaxLane(max);
}

HWY_INLINE float SumExp(const float* x, int64_t count, float max) {
  VF sum = hn::Zero(F32());
  ForVectors(count, [&](auto part, int64_t i) HWY_ATTR {
    const VF e = ExpNonPositive(hn::Sub(part.Load(x + i), Set(max)));
    sum = hn::Add(sum, part.Keep(e, hn::Zero(F32())));
  });
  return Sum(sum);
}

// Loss of one row; with `gradient`, x becomes scale * (softmax(x) - onehot(label)).
double CrossEntropyRow(float* x, int64_t cols, int32_t label, float scale, bool gradient) {
  // The sum is scaled to the largest so far; a block fits the first-level cache, so memory is read once.
  constexpr int64_t kBlock = 4096;
  float max = -std::numeric_limits<float>::infinity();
  double sum = 0.0;
  for (int64_t i = 0; i < cols; i += kBlock) {
    const int64_t count = std::min(kBlock, cols - i);
    const float block_max = MaxOf(x + i, count);
    if (block_max > max) {
      sum *= std::exp(static_cast<double>(max) - block_max);
      max = block_max;
    }
    sum += SumExp(x + i, count, max);
  }
  const double loss = std::log(sum) + max - x[label];
  if (gradient) {
    const VF factor = Set(static_cast<float>(scale / sum));
    ForVectors(cols, [&](auto part, int64_t i) HWY_ATTR {
      part.Store(hn::Mul(ExpNonPositive(hn::Sub(part.Load(x + i), Set(max))), factor), x + i);
    });
    x[label] -= scale;
  }
  return loss;
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {

HWY_EXPORT(CrossEntropyRow);

void CrossEntropy(ThreadPool& pool, const Tensor& logits, const Tensor& labels, float scale, bool gradient,
                  const Tensor& loss) {
  std::vector<double> row_loss(logits.rows());
  ParallelRows(pool, logits.rows(), logits.cols(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      row_loss[row] = HWY_DYNAMIC_DISPATCH(CrossEntropyRow)(
          logits.f32() + row * logits.stride(), logits.cols(), labels.i32()[row], scale, gradient);
    }
  });
  auto* total = reinterpret_cast<double*>(loss.bytes());
  for (const double value : row_loss) *total += value;
}

}  // namespace ftune::cpu
#endif
