#include <algorithm>
#include <cmath>

#include "engine/backend/cpu/attention.h"
#include "engine/backend/cpu/attention_plan.h"
#include "engine/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/attention_forward.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

// Turns a row of products into exp(scale * product - max) and takes them into its running maximum and sum.
// Returns by what the row's earlier sums are to be multiplied.
HWY_INLINE float SoftmaxRow(Range reach, float scale, float* scores, float& max, float& sum) {
  VF largest = Set(kMinusInfinity);
  for (int64_t j = reach.begin; j < reach.end; j += Lanes()) {
    largest = hn::Max(largest, hn::LoadU(F32(), scores + j));
  }
  const float before = max;
  max = std::max(max, scale * MaxLane(largest));
  const float base = max == kMinusInfinity ? 0.0f : max;
  VF sums = hn::Zero(F32());
  for (int64_t j = reach.begin; j < reach.end; j += Lanes()) {
    const VF p = ExpNonPositive(hn::MulSub(hn::LoadU(F32(), scores + j), Set(scale), Set(base)));
    hn::StoreU(p, F32(), scores + j);
    sums = hn::Add(sums, p);
  }
  if (before == base || before == kMinusInfinity) {  // nothing to correct, or nothing there
    sum += Sum(sums);
    return 1.0f;
  }
  const float correction = hn::GetLane(ExpNonPositive(Set(before - base)));
  sum = sum * correction + Sum(sums);
  return correction;
}

HWY_INLINE void ScaleRow(float factor, int64_t count, float* row) {
  for (int64_t i = 0; i < count; i += Lanes()) {
    hn::StoreU(hn::Mul(hn::LoadU(F32(), row + i), Set(factor)), F32(), row + i);
  }
}

// The running softmax of one head's tile of queries.
struct Running {
  float *out, *max, *sum;
};

// One tile of scores of one head, and its share of the output. `q` starts at the tile's first query.
void ForwardTile(const Visibility& visibility, const ScoreRule& rule, Range queries, Range keys, int64_t dim,
                 int64_t padded, const HeadRows& q, const float* keys_t, const float* values, float* strip,
                 const Running& running) {
  for (int64_t i = 0; i < queries.size(); i += kBlockRows) {
    const int64_t rows = std::min<int64_t>(kBlockRows, queries.size() - i);
    const Range seen = SeenByStrip(visibility, keys, queries.begin + i, rows);
    if (seen.size() <= 0) continue;
    const Range computed = WholeVectors(seen);
    float* scores = strip + kLanePad;
    float* out = running.out + i * padded;
    ProductStrip(rows, computed.size(), dim, {q.Row(i), q.stride, 1}, keys_t + computed.begin, kKeyStride,
                 scores + computed.begin, kScoreStride, false);
    if (rule.capped) CapProducts(rule, rows, computed, scores);
    for (int64_t r = 0; r < rows; ++r) {
      float* row = scores + r * kScoreStride;
      const Range reach =
          MaskRow(visibility.KeysIn(keys, queries.begin + i + r), keys.size(), kMinusInfinity, row);
      const float correction = SoftmaxRow(reach, rule.factor, row, running.max[i + r], running.sum[i + r]);
      if (correction != 1.0f) ScaleRow(correction, padded, out + r * padded);
    }
    ProductStrip(rows, padded, seen.size(), {scores + seen.begin, kScoreStride, 1},
                 values + seen.begin * padded, padded, out, padded, true);
  }
}

void ForwardTaskKernel(const AttentionForwardArgs& args, const ForwardTask& task, float* scratch) {
  const AttentionShape& shape = args.shape;
  const AttentionSegment& segment = *task.segment;
  const Visibility visibility(segment, shape.window);
  const ScoreRule rule(shape);
  const int64_t dim = shape.head_dim;
  const int64_t padded = PaddedDim(shape);
  const int64_t group = GroupSize(shape);
  const int64_t rows = task.queries.size();
  ScratchParts parts(scratch);
  float* keys_t = parts.Take(kKeyStride * padded);
  float* values = parts.Take(kTileKeys * padded);
  float* strip = parts.Take(kBlockRows * kScoreStride);
  const Running all = {parts.Take(group * kTileQueries * padded), parts.Take(group * kTileQueries),
                       parts.Take(group * kTileQueries)};
  std::fill_n(all.out, group * kTileQueries * padded, 0.0f);
  std::fill_n(all.max, group * kTileQueries, kMinusInfinity);
  std::fill_n(all.sum, group * kTileQueries, 0.0f);
  const auto running = [&](int64_t h) {
    return Running{all.out + h * kTileQueries * padded, all.max + h * kTileQueries,
                   all.sum + h * kTileQueries};
  };

  const HeadRows k = HeadOf(args.k, segment.k_begin, task.kv_head, dim);
  const HeadRows v = HeadOf(args.v, segment.k_begin, task.kv_head, dim);
  const Range seen = {visibility.Keys(task.queries.begin).begin, visibility.Keys(task.queries.end - 1).end};
  ForTiles(seen, kTileKeys, kLanePad, [&](Range keys) HWY_ATTR {
    PackTransposed(k, keys, dim, keys_t);
    PackRows(v, keys, dim, padded, values);
    for (int64_t h = 0; h < group; ++h) {
      const HeadRows q = HeadOf(args.q, segment.q_begin + task.queries.begin, task.kv_head * group + h, dim);
      ForwardTile(visibility, rule, task.queries, keys, dim, padded, q, keys_t, values, strip, running(h));
    }
  });

  for (int64_t h = 0; h < group; ++h) {
    const int64_t head = task.kv_head * group + h;
    const HeadRows out = HeadOf(args.out, segment.q_begin + task.queries.begin, head, dim);
    for (int64_t i = 0; i < rows; ++i) {
      const float sum = running(h).sum[i];
      const VF factor = Set(sum == 0.0f ? 0.0f : 1.0f / sum);  // a query that sees no key gives 0
      const float* from = running(h).out + i * padded;
      ForVectors(dim, [&](auto part, int64_t c)
                          HWY_ATTR { part.Store(hn::Mul(part.Load(from + c), factor), out.Row(i) + c); });
      if (!args.lse.defined()) continue;
      const int64_t token = segment.q_begin + task.queries.begin + i;
      args.lse.f32()[token * args.lse.stride() + head] = running(h).max[i] + std::log(sum);
    }
  }
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {

HWY_EXPORT(ForwardTaskKernel);

void AttentionForward(ThreadPool& pool, const AttentionForwardArgs& args, const Tensor& workspace) {
  auto* scratch = reinterpret_cast<float*>(workspace.bytes());
  const int64_t scratch_floats = ForwardScratchFloats(args.shape);
  const std::vector<ForwardTask> tasks = ForwardTasks(args.shape, *args.segments);
  pool.Run(tasks.size(), [&](int64_t task, int worker) {
    HWY_DYNAMIC_DISPATCH(ForwardTaskKernel)(args, tasks[task], scratch + worker * scratch_floats);
  });
  for (const Range& gap : UncoveredQueries(*args.segments, args.q.rows())) {
    for (int64_t t = gap.begin; t < gap.end; ++t) {
      std::fill_n(args.out.f32() + t * args.out.stride(), args.out.cols(), 0.0f);
      if (args.lse.defined()) {
        std::fill_n(args.lse.f32() + t * args.lse.stride(), args.lse.cols(),
                    -std::numeric_limits<float>::infinity());
      }
    }
  }
}

}  // namespace ftune::cpu
#endif
