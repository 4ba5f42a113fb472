#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/backend/cpu/optimizers.h"
#include "engine/backend/cpu/reduce.h"
#include "engine/backend/cpu/targets.h"
#include "engine/backend/cpu/weight_update.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/adafactor.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/simd-inl.h"

namespace ftune::cpu {
#ifndef FTUNE_ENGINE_BACKEND_CPU_ADAFACTOR_ONCE_
#define FTUNE_ENGINE_BACKEND_CPU_ADAFACTOR_ONCE_

constexpr float kEps1 = std::numeric_limits<float>::epsilon();

// Elements of one row: gradients, and the variance that is estimated for each, factor * variances[i].
struct AdafactorSegment {
  const float* gradients;
  float gradient_scale;
  const float* variances;
  float factor;
  int64_t count;
};

#endif
}  // namespace ftune::cpu

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

// In runs, each added in double: long rows keep their precision.
constexpr int64_t kSumRun = 256;

double SquaresRun(const float* values, int64_t count) {
  double sum = 0.0;
  for (int64_t begin = 0; begin < count; begin += kSumRun) {
    VF run = Set(0.0f);
    ForVectors(std::min(kSumRun, count - begin), [&](auto part, int64_t i) HWY_ATTR {
      const VF v = part.Load(values + begin + i);
      run = hn::MulAdd(v, v, run);
    });
    sum += Sum(run);
  }
  return sum;
}

// Returns the sum of the scaled gradients' squares and adds each to `columns`.
double RowAndColumnSquares(const float* gradients, float gradient_scale, int64_t count, float* columns) {
  double sum = 0.0;
  for (int64_t begin = 0; begin < count; begin += kSumRun) {
    VF run = Set(0.0f);
    ForVectors(std::min(kSumRun, count - begin), [&](auto part, int64_t i) HWY_ATTR {
      const VF g = hn::Mul(part.Load(gradients + begin + i), Set(gradient_scale));
      run = hn::MulAdd(g, g, run);
      part.Store(hn::MulAdd(g, g, part.Load(columns + begin + i)), columns + begin + i);
    });
    sum += Sum(run);
  }
  return sum;
}

// values += share * (squares * scale - values)
void Approach(const float* squares, float scale, float share, int64_t count, float* values) {
  ForVectors(count, [&](auto part, int64_t i) HWY_ATTR {
    const VF before = part.Load(values + i);
    const VF mean = hn::Mul(part.Load(squares + i), Set(scale));
    part.Store(hn::MulAdd(Set(share), hn::Sub(mean, before), before), values + i);
  });
}

// As Approach, of the scaled gradients' squares.
void ApproachSquares(const float* gradients, float gradient_scale, float share, int64_t count,
                     float* values) {
  ForVectors(count, [&](auto part, int64_t i) HWY_ATTR {
    const VF before = part.Load(values + i);
    const VF g = hn::Mul(part.Load(gradients + i), Set(gradient_scale));
    part.Store(hn::MulAdd(Set(share), hn::Sub(hn::Mul(g, g), before), before), values + i);
  });
}

template <class Part>
HWY_INLINE VF UpdateOf(const AdafactorSegment& s, Part part, int64_t i) {
  const VF g = hn::Mul(part.Load(s.gradients + i), Set(s.gradient_scale));
  const VF variance = hn::Max(hn::Mul(part.Load(s.variances + i), Set(s.factor)), Set(kEps1 * kEps1));
  return hn::Div(g, hn::Sqrt(variance));
}

double UpdateSquares(const AdafactorSegment& s) {
  double sum = 0.0;
  for (int64_t begin = 0; begin < s.count; begin += kSumRun) {
    VF run = Set(0.0f);
    ForVectors(std::min(kSumRun, s.count - begin), [&](auto part, int64_t i) HWY_ATTR {
      const VF update = UpdateOf(s, part, begin + i);
      run = hn::MulAdd(update, update, run);
    });
    sum += Sum(run);
  }
  return sum;
}

void ApplyUpdate(const AdafactorSegment& s, float keep, float size, float* weights) {
  ForVectors(s.count, [&](auto part, int64_t i) HWY_ATTR {
    const VF decayed = hn::Mul(part.Load(weights + i), Set(keep));
    part.Store(hn::NegMulAdd(Set(size), UpdateOf(s, part, i), decayed), weights + i);
  });
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {
namespace {

HWY_EXPORT(SquaresRun);
HWY_EXPORT(RowAndColumnSquares);
HWY_EXPORT(Approach);
HWY_EXPORT(ApproachSquares);
HWY_EXPORT(UpdateSquares);
HWY_EXPORT(ApplyUpdate);

class AdafactorStep {
 public:
  AdafactorStep(ThreadPool& pool, const AdafactorArgs& args, const Tensor& workspace)
      : pool_(pool),
        args_(args),
        gradients_(args.update.gradients.f32()),
        gradient_scale_(*args.update.gradient_scale.f32()),
        elements_(args.update.weights.size()),
        rows_(args.variance.defined() ? 1 : args.update.weights.rows()),
        cols_(elements_ / rows_),
        share_(static_cast<float>(std::pow(static_cast<double>(args.step), args.beta2_decay))),
        partials_(reinterpret_cast<double*>(workspace.bytes())),
        columns_(reinterpret_cast<float*>(workspace.bytes() + ColumnReductionBytes(elements_, 1))) {}

  void Run() {
    const UpdateArgs& update = args_.update;
    const double size =
        std::max<double>(args_.eps2, RootMean(WeightSquares())) *
        std::min<double>(update.learning_rate, 1.0 / std::sqrt(static_cast<double>(args_.step)));
    if (args_.variance.defined()) {
      ApproachVector();
    } else {
      ApproachRowsAndColumns();
    }
    const double step = size / std::max(1.0, RootMean(SquaresOfUpdate()) / args_.clip);
    const float keep = Keep(update);
    UpdatePieces(pool_, update, [&](int64_t begin, int64_t count, float* weights) {
      ForSegments(begin, begin + count, [&](int64_t first, const AdafactorSegment& segment) {
        HWY_DYNAMIC_DISPATCH(ApplyUpdate)
        (segment, keep, static_cast<float>(step), weights + first - begin);
      });
    });
  }

 private:
  double RootMean(double squares) const { return std::sqrt(squares / static_cast<double>(elements_)); }

  // Σ of sum(begin, end) over chunks of all elements, in order.
  template <class SumOfRange>
  double SumChunks(const SumOfRange& sum) {
    const ReductionChunks cut = ChunksOf(elements_);
    ParallelRanges(pool_, elements_, cut.rows_per_chunk, [&](int64_t begin, int64_t end) {
      partials_[begin / cut.rows_per_chunk] = sum(begin, end);
    });
    double total = 0.0;
    for (int64_t chunk = 0; chunk < cut.chunks; ++chunk) total += partials_[chunk];
    return total;
  }

  double WeightSquares() {
    return SumChunks([&](int64_t begin, int64_t end) {
      double sum = 0.0;
      for (int64_t i = begin; i < end; i += kUpdatePiece) {
        const int64_t count = std::min(kUpdatePiece, end - i);
        WeightPiece piece(args_.update, i, count);
        sum += HWY_DYNAMIC_DISPATCH(SquaresRun)(piece.data(), count);
      }
      return sum;
    });
  }

  double SquaresOfUpdate() {
    return SumChunks([&](int64_t begin, int64_t end) {
      double sum = 0.0;
      ForSegments(begin, end, [&](int64_t, const AdafactorSegment& segment) {
        sum += HWY_DYNAMIC_DISPATCH(UpdateSquares)(segment);
      });
      return sum;
    });
  }

  void ApproachVector() {
    ParallelRanges(pool_, elements_, kElementGrain, [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(ApproachSquares)
      (gradients_ + begin, gradient_scale_, share_, end - begin, args_.variance.f32() + begin);
    });
  }

  void ApproachRowsAndColumns() {
    const ReductionChunks cut = ChunksOf(rows_);
    float* totals = columns_;
    float* partials = columns_ + cols_;
    float* row_variance = args_.row_variance.f32();
    ParallelRanges(pool_, rows_, cut.rows_per_chunk, [&](int64_t begin, int64_t end) {
      float* partial = partials + begin / cut.rows_per_chunk * cols_;
      std::fill_n(partial, cols_, 0.0f);
      for (int64_t row = begin; row < end; ++row) {
        const double sum = HWY_DYNAMIC_DISPATCH(RowAndColumnSquares)(gradients_ + row * cols_,
                                                                     gradient_scale_, cols_, partial);
        const double before = row_variance[row];
        row_variance[row] = static_cast<float>(before + share_ * (sum / static_cast<double>(cols_) - before));
      }
    });
    std::fill_n(totals, cols_, 0.0f);
    for (int64_t chunk = 0; chunk < cut.chunks; ++chunk) AddTo(partials + chunk * cols_, cols_, totals);
    HWY_DYNAMIC_DISPATCH(Approach)
    (totals, 1.0f / static_cast<float>(rows_), share_, cols_, args_.col_variance.f32());
    double mean = 0.0;
    for (int64_t row = 0; row < rows_; ++row) mean += row_variance[row];
    inverse_mean_ = 1.0 / std::max<double>(mean / static_cast<double>(rows_), kEps1);
  }

  // call(first element, segment) for the parts of rows that make up elements [begin, end).
  template <class Call>
  void ForSegments(int64_t begin, int64_t end, const Call& call) const {
    while (begin < end) {
      const int64_t row = begin / cols_;
      const int64_t col = begin % cols_;
      const int64_t count = std::min(cols_ - col, end - begin);
      const bool vector = args_.variance.defined();
      call(begin,
           AdafactorSegment{
               .gradients = gradients_ + begin,
               .gradient_scale = gradient_scale_,
               .variances = (vector ? args_.variance : args_.col_variance).f32() + col,
               .factor = vector ? 1.0f : static_cast<float>(args_.row_variance.f32()[row] * inverse_mean_),
               .count = count});
      begin += count;
    }
  }

  ThreadPool& pool_;
  const AdafactorArgs& args_;
  const float* gradients_;
  float gradient_scale_;
  int64_t elements_;
  int64_t rows_;  // 1 for a vector
  int64_t cols_;
  float share_;       // of the new squares in the variances: 1 - beta2 of this step
  double* partials_;  // one a chunk of elements
  float* columns_;    // [1 + chunks of rows, cols]
  double inverse_mean_ = 1.0;
};

}  // namespace

int64_t AdafactorWorkspaceBytes(int64_t rows, int64_t cols) {
  return ColumnReductionBytes(rows * cols, 1) +
         (1 + ChunksOf(rows).chunks) * cols * static_cast<int64_t>(sizeof(float));
}

void Adafactor(ThreadPool& pool, const AdafactorArgs& args, const Tensor& workspace) {
  AdafactorStep(pool, args, workspace).Run();
}

}  // namespace ftune::cpu
#endif
