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

// Logits as they are.
struct Plain {
  HWY_INLINE VF operator()(VF x) const { return x; }
  // Takes the gradient with respect to a logit to what it was made from.
  HWY_INLINE VF Gradient(VF gradient, VF) const { return gradient; }
};

// cap * tanh(x / cap)
struct Capped {
  explicit Capped(float limit) : cap(Set(limit)), inverse(Set(1.0f / limit)) {}
  HWY_INLINE VF operator()(VF x) const { return hn::Mul(cap, Tanh(hn::Mul(x, inverse))); }
  HWY_INLINE VF Gradient(VF gradient, VF capped) const {
    const VF tanh = hn::Mul(capped, inverse);
    return hn::Mul(gradient, hn::NegMulAdd(tanh, tanh, Set(1.0f)));
  }
  VF cap, inverse;
};

template <class Logit>
HWY_INLINE float SumExp(const Logit& logit, const float* x, int64_t count, float max) {
  VF sum = hn::Zero(F32());
  ForVectors(count, [&](auto part, int64_t i) HWY_ATTR {
    const VF e = ExpNonPositive(hn::Sub(logit(part.Load(x + i)), Set(max)));
    sum = hn::Add(sum, part.Keep(e, hn::Zero(F32())));
  });
  return Sum(sum);
}

template <class Logit>
HWY_INLINE float SumOf(const Logit& logit, const float* x, int64_t count) {
  VF sum = hn::Zero(F32());
  ForVectors(count, [&](auto part, int64_t i) HWY_ATTR { sum = hn::Add(sum, logit(part.Load(x + i))); });
  return Sum(sum);
}

// Loss of one row; with `gradient`, x becomes its gradient times `scale`.
template <class Logit>
HWY_INLINE double RowLoss(const Logit& logit, float* x, int64_t cols, int32_t label, float scale,
                          float smoothing, bool gradient) {
  // The sum is scaled to the largest so far; a block fits the first-level cache, so memory is read once.
  constexpr int64_t kBlock = 4096;
  float max = -std::numeric_limits<float>::infinity();
  double sum = 0.0;
  double logits = 0.0;
  for (int64_t i = 0; i < cols; i += kBlock) {
    const int64_t count = std::min(kBlock, cols - i);
    const float block_max = hn::GetLane(logit(Set(MaxOf(x + i, count))));
    if (block_max > max) {
      sum *= std::exp(static_cast<double>(max) - block_max);
      max = block_max;
    }
    sum += SumExp(logit, x + i, count, max);
    if (smoothing != 0.0f) logits += SumOf(logit, x + i, count);
  }
  const double share = smoothing / static_cast<double>(cols);  // of the target, in every column
  const VF label_logit = logit(Set(x[label]));
  double loss = std::log(sum) + max - (1.0 - smoothing) * hn::GetLane(label_logit);
  if (smoothing != 0.0f) loss -= share * logits;
  if (gradient) {
    const VF factor = Set(static_cast<float>(scale / sum));
    const VF offset = Set(static_cast<float>(scale * share));
    ForVectors(cols, [&](auto part, int64_t i) HWY_ATTR {
      const VF z = logit(part.Load(x + i));
      const VF dz = hn::MulSub(ExpNonPositive(hn::Sub(z, Set(max))), factor, offset);
      part.Store(logit.Gradient(dz, z), x + i);
    });
    x[label] -= hn::GetLane(logit.Gradient(Set(scale * (1.0f - smoothing)), label_logit));
  }
  return loss;
}

double CrossEntropyRow(const CrossEntropyArgs& args, int64_t row) {
  float* x = args.logits.f32() + row * args.logits.stride();
  const int64_t cols = args.logits.cols();
  const int32_t label = args.labels.i32()[row];
  if (args.softcap == 0.0f) {
    return RowLoss(Plain(), x, cols, label, args.scale, args.label_smoothing, args.gradient);
  }
  return RowLoss(Capped(args.softcap), x, cols, label, args.scale, args.label_smoothing, args.gradient);
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {

HWY_EXPORT(CrossEntropyRow);

void CrossEntropy(ThreadPool& pool, const CrossEntropyArgs& args) {
  const int64_t rows = args.logits.rows();
  std::vector<double> row_loss(rows);
  ParallelRows(pool, rows, args.logits.cols(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      row_loss[row] = HWY_DYNAMIC_DISPATCH(CrossEntropyRow)(args, row);
    }
  });
  auto* total = reinterpret_cast<double*>(args.loss.bytes());
  for (const double value : row_loss) *total += value;
}

}  // namespace ftune::cpu
#endif
