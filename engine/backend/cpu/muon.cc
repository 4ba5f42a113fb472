#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "engine/backend/cpu/gemm.h"
#include "engine/backend/cpu/optimizers.h"
#include "engine/backend/cpu/reduce.h"
#include "engine/backend/cpu/targets.h"
#include "engine/backend/cpu/weight_update.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/muon.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

// The new momentum and what it looks ahead to (nesterov); returns the latter's sum of squares.
double MomentumRun(const float* gradients, float gradient_scale, float factor, int64_t count, float* momentum,
                   float* ahead) {
  constexpr int64_t kSumRun = 256;
  const VF rest = Set(static_cast<float>(1.0 - static_cast<double>(factor)));
  double sum = 0.0;
  for (int64_t begin = 0; begin < count; begin += kSumRun) {
    VF run = Set(0.0f);
    ForVectors(std::min(kSumRun, count - begin), [&](auto part, int64_t i) HWY_ATTR {
      const int64_t at = begin + i;
      const VF g = hn::Mul(part.Load(gradients + at), Set(gradient_scale));
      const VF before = part.Load(momentum + at);
      const VF m = hn::MulAdd(rest, hn::Sub(g, before), before);
      const VF next = hn::MulAdd(rest, hn::Sub(g, m), m);
      part.Store(m, momentum + at);
      part.Store(next, ahead + at);
      run = hn::MulAdd(next, next, run);
    });
    sum += Sum(run);
  }
  return sum;
}

void DivideRun(float divisor, int64_t count, float* values) {
  ForVectors(count, [&](auto part, int64_t i)
                        HWY_ATTR { part.Store(hn::Div(part.Load(values + i), Set(divisor)), values + i); });
}

void StepRun(const float* direction, float keep, float size, int64_t count, float* weights) {
  ForVectors(count, [&](auto part, int64_t i) HWY_ATTR {
    const VF decayed = hn::Mul(part.Load(weights + i), Set(keep));
    part.Store(hn::NegMulAdd(Set(size), part.Load(direction + i), decayed), weights + i);
  });
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {
namespace {

HWY_EXPORT(MomentumRun);
HWY_EXPORT(DivideRun);
HWY_EXPORT(StepRun);

// The quintic's coefficients and the smallest norm, from Jordan's post.
constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;
constexpr double kSmallestNorm = 1e-7;

void Copy(ThreadPool& pool, const float* from, int64_t count, float* to) {
  ParallelRanges(pool, count, kElementGrain, [&](int64_t begin, int64_t end) {
    std::memcpy(to + begin, from + begin, (end - begin) * sizeof(float));
  });
}

// [rows, cols] f32 twice, and its smaller Gram matrix twice.
struct MuonWorkspace {
  MuonWorkspace(const Tensor& bytes, int64_t rows, int64_t cols)
      : partials(reinterpret_cast<double*>(bytes.bytes())),
        x(reinterpret_cast<float*>(bytes.bytes() + ColumnReductionBytes(rows * cols, 1))),
        next(x + rows * cols),
        gram(next + rows * cols),
        polynomial(gram + std::min(rows, cols) * std::min(rows, cols)),
        scratch(polynomial + std::min(rows, cols) * std::min(rows, cols)) {}
  double* partials;
  float* x;
  float* next;
  float* gram;
  float* polynomial;
  float* scratch;  // of the products
};

// Enough for each product of Orthogonalize.
int64_t ScratchFloats(int64_t rows, int64_t cols) {
  const GemmOperand transposed = {nullptr, cols, true};
  return std::max(GemmScratchFloats(transposed, {nullptr, cols, false}),
                  GemmScratchFloats(transposed, {nullptr, std::min(rows, cols), false}));
}

// x becomes a x + (b g + c g²) x with g = x xᵀ, five times over: its singular values move towards 1. Of a
// tall matrix the transpose is meant: x (b g + c g²) with g = xᵀ x.
void Orthogonalize(ThreadPool& pool, int64_t rows, int64_t cols, MuonWorkspace& w) {
  const bool tall = rows > cols;
  const int64_t small = std::min(rows, cols);
  const int64_t large = std::max(rows, cols);
  for (int step = 0; step < kNewtonSchulzSteps; ++step) {
    Gemm(pool, small, small, large, 1.0f, {w.x, cols, tall}, {w.x, cols, !tall}, 0.0f, w.gram, small,
         w.scratch);
    Copy(pool, w.gram, small * small, w.polynomial);
    Gemm(pool, small, small, small, kC, {w.gram, small, false}, {w.gram, small, false}, kB, w.polynomial,
         small, w.scratch);
    Copy(pool, w.x, rows * cols, w.next);
    const GemmOperand polynomial = {w.polynomial, small, false};
    const GemmOperand x = {w.x, cols, false};
    Gemm(pool, rows, cols, small, 1.0f, tall ? x : polynomial, tall ? polynomial : x, kA, w.next, cols,
         w.scratch);
    std::swap(w.x, w.next);
  }
}

}  // namespace

int64_t MuonWorkspaceBytes(int64_t rows, int64_t cols, int threads) {
  const int64_t small = std::min(rows, cols);
  return ColumnReductionBytes(rows * cols, 1) +
         (2 * (rows * cols + small * small) + threads * ScratchFloats(rows, cols)) *
             static_cast<int64_t>(sizeof(float));
}

void Muon(ThreadPool& pool, const MuonArgs& args, const Tensor& workspace) {
  const UpdateArgs& update = args.update;
  const int64_t rows = update.weights.rows(), cols = update.weights.cols();
  const int64_t elements = rows * cols;
  MuonWorkspace w(workspace, rows, cols);

  const ReductionChunks cut = ChunksOf(elements);
  ParallelRanges(pool, elements, cut.rows_per_chunk, [&](int64_t begin, int64_t end) {
    w.partials[begin / cut.rows_per_chunk] =
        HWY_DYNAMIC_DISPATCH(MomentumRun)(update.gradients.f32() + begin, *update.gradient_scale.f32(),
                                          args.factor, end - begin, args.momentum.f32() + begin, w.x + begin);
  });
  double squares = 0.0;
  for (int64_t chunk = 0; chunk < cut.chunks; ++chunk) squares += w.partials[chunk];
  const double root = std::sqrt(squares);
  const auto norm = static_cast<float>(root < kSmallestNorm ? kSmallestNorm : root);  // NaN stays NaN
  ParallelRanges(pool, elements, kElementGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(DivideRun)(norm, end - begin, w.x + begin);
  });

  Orthogonalize(pool, rows, cols, w);

  const float keep = Keep(update);
  const float size = update.learning_rate * args.scale;
  UpdatePieces(pool, update, [&](int64_t begin, int64_t count, float* weights) {
    HWY_DYNAMIC_DISPATCH(StepRun)(w.x + begin, keep, size, count, weights);
  });
}

}  // namespace ftune::cpu
#endif
