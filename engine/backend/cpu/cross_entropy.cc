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

// The gradient of a row but for what its label adds, times the scale that `factor` and `offset` have.
template <class Logit>
HWY_INLINE void MakeGradient(const Logit& logit, float* x, int64_t cols, float max, VF factor, VF offset) {
  ForVectors(cols, [&](auto part, int64_t i) HWY_ATTR {
    const VF z = logit(part.Load(x + i));
    const VF dz = hn::MulSub(ExpNonPositive(hn::Sub(z, Set(max))), factor, offset);
    part.Store(logit.Gradient(dz, z), x + i);
  });
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
    MakeGradient(logit, x, cols, max, factor, offset);
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

// Calls run(logit) with what the logits of a batch are.
template <class Run>
HWY_INLINE auto WithLogit(float softcap, const Run& run) {
  return softcap == 0.0f ? run(Plain()) : run(Capped(softcap));
}

void SliceMaxRow(const CrossEntropySliceArgs& args, int64_t row) {
  const Tensor& x = args.of.logits;
  const float max = MaxOf(x.f32() + row * x.stride(), x.cols());
  args.max.f32()[row] =
      WithLogit(args.of.softcap, [&](const auto& logit) HWY_ATTR { return hn::GetLane(logit(Set(max))); });
}

void SliceSumsRow(const CrossEntropySliceArgs& args, int64_t row) {
  // Blocks as in RowLoss keep the sums of f32 short.
  constexpr int64_t kBlock = 4096;
  const Tensor& logits = args.of.logits;
  const float* x = logits.f32() + row * logits.stride();
  const int64_t label = args.of.labels.i32()[row] - args.first_column;
  const float max = args.max.f32()[row];
  auto* sums = reinterpret_cast<double*>(args.sums.bytes()) + row;
  const int64_t rows = logits.rows();
  WithLogit(args.of.softcap, [&](const auto& logit) HWY_ATTR {
    double exps = 0.0, plain = 0.0;
    for (int64_t i = 0; i < logits.cols(); i += kBlock) {
      const int64_t count = std::min(kBlock, logits.cols() - i);
      exps += SumExp(logit, x + i, count, max);
      if (args.of.label_smoothing != 0.0f) plain += SumOf(logit, x + i, count);
    }
    const bool has_label = label >= 0 && label < logits.cols();
    sums[0] = exps;
    sums[rows] = plain;
    sums[2 * rows] = has_label ? hn::GetLane(logit(Set(x[label]))) : 0.0;
    return 0;
  });
}

double SliceLossRow(const CrossEntropySliceArgs& args, int64_t row) {
  const Tensor& logits = args.of.logits;
  float* x = logits.f32() + row * logits.stride();
  const int64_t rows = logits.rows();
  const int64_t label = args.of.labels.i32()[row] - args.first_column;
  const float max = args.max.f32()[row];
  const auto* sums = reinterpret_cast<const double*>(args.sums.bytes()) + row;
  const float smoothing = args.of.label_smoothing, scale = args.of.scale;
  const double share = smoothing / static_cast<double>(args.vocabulary);
  double loss = std::log(sums[0]) + max - (1.0 - smoothing) * sums[2 * rows];
  if (smoothing != 0.0f) loss -= share * sums[rows];
  if (!args.of.gradient) return loss;
  WithLogit(args.of.softcap, [&](const auto& logit) HWY_ATTR {
    const bool has_label = label >= 0 && label < logits.cols();
    const VF label_logit = has_label ? logit(Set(x[label])) : Set(0.0f);
    MakeGradient(logit, x, logits.cols(), max, Set(static_cast<float>(scale / sums[0])),
                 Set(static_cast<float>(scale * share)));
    if (has_label) x[label] -= hn::GetLane(logit.Gradient(Set(scale * (1.0f - smoothing)), label_logit));
    return 0;
  });
  return loss;
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {

HWY_EXPORT(CrossEntropyRow);
HWY_EXPORT(SliceMaxRow);
HWY_EXPORT(SliceSumsRow);
HWY_EXPORT(SliceLossRow);

namespace {

// run(row) for all rows.
template <class Run>
void ForRows(ThreadPool& pool, const CrossEntropyArgs& args, const Run& run) {
  ParallelRows(pool, args.logits.rows(), args.logits.cols(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) run(row);
  });
}

// Adds the losses that loss(row) gives, in order of the rows.
template <class Loss>
void AddLosses(ThreadPool& pool, const CrossEntropyArgs& args, const Loss& loss) {
  std::vector<double> row_loss(args.logits.rows());
  ForRows(pool, args, [&](int64_t row) { row_loss[row] = loss(row); });
  auto* total = reinterpret_cast<double*>(args.loss.bytes());
  for (const double value : row_loss) *total += value;
}

}  // namespace

void CrossEntropy(ThreadPool& pool, const CrossEntropyArgs& args) {
  AddLosses(pool, args, [&](int64_t row) { return HWY_DYNAMIC_DISPATCH(CrossEntropyRow)(args, row); });
}

void CrossEntropyMax(ThreadPool& pool, const CrossEntropySliceArgs& args) {
  ForRows(pool, args.of, [&](int64_t row) { HWY_DYNAMIC_DISPATCH(SliceMaxRow)(args, row); });
}

void CrossEntropySums(ThreadPool& pool, const CrossEntropySliceArgs& args) {
  ForRows(pool, args.of, [&](int64_t row) { HWY_DYNAMIC_DISPATCH(SliceSumsRow)(args, row); });
}

void CrossEntropyLoss(ThreadPool& pool, const CrossEntropySliceArgs& args) {
  AddLosses(pool, args.of, [&](int64_t row) { return HWY_DYNAMIC_DISPATCH(SliceLossRow)(args, row); });
}

}  // namespace ftune::cpu
#endif
