#include <algorithm>
#include <cstring>

#include "engine/backend/cpu/attention.h"
#include "engine/backend/cpu/attention_plan.h"
#include "engine/backend/cpu/elementwise.h"
#include "engine/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/attention_backward.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

struct BackwardScratch {
  float *keys_t, *keys, *values_t;  // of the key tile; _t: transposed
  float *queries, *dout;            // of the query tile
  float *p, *ds;                    // probabilities and the gradient of the scores, [queries, kScoreStride]
  float *dkeys, *dvalues;           // sums for the key tile
  float* dquery_strip;
  float *lse, *delta;  // delta: Σ dout * out
};

// p = exp(factor * p - lse), ds = scale * p * (ds - delta); before, p holds the products or, capped, their
// tanh, and ds the gradient of the probabilities. Capped, ds is also multiplied by the cap's slope, 1 -
// tanh².
template <bool kCapped>
HWY_INLINE void ProbabilityRow(Range reach, float factor, float scale, float lse, float delta, float* p,
                               float* ds) {
  const VF base = Set(lse == kMinusInfinity ? 0.0f : lse);
  for (int64_t j = reach.begin; j < reach.end; j += Lanes()) {
    const VF product = hn::LoadU(F32(), p + j);
    const VF probability = ExpNonPositive(hn::MulSub(product, Set(factor), base));
    VF slope = Set(scale);
    if constexpr (kCapped) {
      // What is masked holds -inf.
      slope = hn::Mul(slope, hn::Sub(Set(1.0f), hn::Min(hn::Mul(product, product), Set(1.0f))));
    }
    const VF dp = hn::Sub(hn::LoadU(F32(), ds + j), Set(delta));
    hn::StoreU(probability, F32(), p + j);
    hn::StoreU(hn::Mul(hn::Mul(probability, slope), dp), F32(), ds + j);
  }
}

// to[row] += from[row]
HWY_INLINE void AddRows(const float* from, int64_t from_stride, int64_t rows, int64_t dim, const HeadRows& to,
                        int64_t first) {
  for (int64_t r = 0; r < rows; ++r) {
    ForVectors(dim, [&](auto part, int64_t c) HWY_ATTR {
      part.Store(hn::Add(part.Load(to.Row(first + r) + c), part.Load(from + r * from_stride + c)),
                 to.Row(first + r) + c);
    });
  }
}

// One head's tile of queries: p and ds, the gradients of its queries, and its share of those of the keys.
void BackwardTile(const Visibility& visibility, const ScoreRule& rule, float scale, Range queries, Range keys,
                  int64_t dim, int64_t padded, const BackwardScratch& s, const HeadRows& dq) {
  float* p_tile = s.p + kLanePad;
  float* ds_tile = s.ds + kLanePad;
  for (int64_t i = 0; i < queries.size(); i += kBlockRows) {
    const int64_t rows = std::min<int64_t>(kBlockRows, queries.size() - i);
    const Range seen = SeenByStrip(visibility, keys, queries.begin + i, rows);
    float* p = p_tile + i * kScoreStride;
    float* ds = ds_tile + i * kScoreStride;
    if (seen.size() > 0) {
      const Range computed = WholeVectors(seen);
      ProductStrip(rows, computed.size(), dim, {s.queries + i * padded, padded, 1}, s.keys_t + computed.begin,
                   kKeyStride, p + computed.begin, kScoreStride, false);
      if (rule.capped) CapProducts(rule, rows, computed, p);
      ProductStrip(rows, computed.size(), dim, {s.dout + i * padded, padded, 1}, s.values_t + computed.begin,
                   kKeyStride, ds + computed.begin, kScoreStride, false);
    }
    for (int64_t r = 0; r < rows; ++r) {
      const Range row_seen = visibility.KeysIn(keys, queries.begin + i + r);
      const Range reach = MaskRow(row_seen, keys.size(), kMinusInfinity, p + r * kScoreStride);
      MaskRow(row_seen, keys.size(), 0.0f, ds + r * kScoreStride);
      float* p_row = p + r * kScoreStride;
      float* ds_row = ds + r * kScoreStride;
      if (rule.capped) {
        ProbabilityRow<true>(reach, rule.factor, scale, s.lse[i + r], s.delta[i + r], p_row, ds_row);
      } else {
        ProbabilityRow<false>(reach, rule.factor, scale, s.lse[i + r], s.delta[i + r], p_row, ds_row);
      }
    }
    if (seen.size() <= 0) continue;
    ProductStrip(rows, padded, seen.size(), {ds + seen.begin, kScoreStride, 1}, s.keys + seen.begin * padded,
                 padded, s.dquery_strip, padded, false);
    AddRows(s.dquery_strip, padded, rows, dim, dq, queries.begin + i);
  }
  for (int64_t j = 0; j < keys.size(); j += kBlockRows) {
    const int64_t rows = std::min<int64_t>(kBlockRows, keys.size() - j);
    const Range seeing = visibility.QueriesIn(queries, {keys.begin + j, keys.begin + j + rows});
    if (seeing.size() <= 0) continue;
    const int64_t first = seeing.begin * kScoreStride + j;
    ProductStrip(rows, padded, seeing.size(), {p_tile + first, 1, kScoreStride},
                 s.dout + seeing.begin * padded, padded, s.dvalues + j * padded, padded, true);
    ProductStrip(rows, padded, seeing.size(), {ds_tile + first, 1, kScoreStride},
                 s.queries + seeing.begin * padded, padded, s.dkeys + j * padded, padded, true);
  }
}

// lse and delta of a head's tile of queries; its rows of q and dout.
void LoadQueries(const AttentionBackwardArgs& args, const AttentionSegment& segment, int64_t head,
                 Range queries, int64_t dim, int64_t padded, const BackwardScratch& s) {
  const HeadRows dout = HeadOf(args.dout, segment.q_begin, head, dim);
  const HeadRows out = HeadOf(args.out, segment.q_begin, head, dim);
  PackRows(HeadOf(args.q, segment.q_begin, head, dim), queries, dim, padded, s.queries);
  PackRows(dout, queries, dim, padded, s.dout);
  for (int64_t i = 0; i < queries.size(); ++i) {
    const int64_t row = queries.begin + i;
    VF sum = hn::Zero(F32());
    ForVectors(dim, [&](auto part, int64_t c) HWY_ATTR {
      sum = hn::MulAdd(part.Load(dout.Row(row) + c), part.Load(out.Row(row) + c), sum);
    });
    s.delta[i] = Sum(sum);
    s.lse[i] = args.lse.f32()[(segment.q_begin + row) * args.lse.stride() + head];
  }
}

void BackwardTaskKernel(const AttentionBackwardArgs& args, const BackwardTask& task, float* scratch) {
  const AttentionShape& shape = args.shape;
  const AttentionSegment& segment = *task.segment;
  const Visibility visibility(segment, shape.window);
  const ScoreRule rule(shape);
  const int64_t dim = shape.head_dim;
  const int64_t padded = PaddedDim(shape);
  const int64_t group = GroupSize(shape);
  ScratchParts parts(scratch);
  BackwardScratch s;
  for (float** tile : {&s.keys_t, &s.values_t}) *tile = parts.Take(kKeyStride * padded);
  for (float** tile : {&s.keys, &s.dkeys, &s.dvalues}) *tile = parts.Take(kTileKeys * padded);
  for (float** tile : {&s.queries, &s.dout}) *tile = parts.Take(kTileQueries * padded);
  for (float** tile : {&s.p, &s.ds}) *tile = parts.Take(kTileQueries * kScoreStride);
  s.dquery_strip = parts.Take(kBlockRows * padded);
  s.lse = parts.Take(kTileQueries);
  s.delta = parts.Take(kTileQueries);

  const HeadRows k = HeadOf(args.k, segment.k_begin, task.kv_head, dim);
  const HeadRows v = HeadOf(args.v, segment.k_begin, task.kv_head, dim);
  ForTiles(task.keys, kTileKeys, kLanePad, [&](Range keys) HWY_ATTR {
    PackTransposed(k, keys, dim, s.keys_t);
    PackRows(k, keys, dim, padded, s.keys);
    PackTransposed(v, keys, dim, s.values_t);
    std::memset(s.dkeys, 0, keys.size() * padded * sizeof(float));
    std::memset(s.dvalues, 0, keys.size() * padded * sizeof(float));
    ForTiles(task.queries, kTileQueries, kBlockRows, [&](Range queries) HWY_ATTR {
      if (SeenByStrip(visibility, keys, queries.begin, queries.size()).size() <= 0) return;
      for (int64_t h = 0; h < group; ++h) {
        const int64_t head = task.kv_head * group + h;
        LoadQueries(args, segment, head, queries, dim, padded, s);
        BackwardTile(visibility, rule, shape.scale, queries, keys, dim, padded, s,
                     HeadOf(args.dq, segment.q_begin, head, dim));
      }
    });
    AddRows(s.dkeys, padded, keys.size(), dim, HeadOf(args.dk, segment.k_begin, task.kv_head, dim),
            keys.begin);
    AddRows(s.dvalues, padded, keys.size(), dim, HeadOf(args.dv, segment.k_begin, task.kv_head, dim),
            keys.begin);
  });
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {

HWY_EXPORT(BackwardTaskKernel);

void AttentionBackward(ThreadPool& pool, const AttentionBackwardArgs& args, const Tensor& workspace) {
  for (const Tensor* gradient : {&args.dq, &args.dk, &args.dv}) Zero(pool, *gradient);
  auto* scratch = reinterpret_cast<float*>(workspace.bytes());
  const int64_t scratch_floats = BackwardScratchFloats(args.shape);
  for (const std::vector<BackwardTask>& phase : BackwardPhases(args.shape, *args.segments)) {
    pool.Run(phase.size(), [&](int64_t task, int worker) {
      HWY_DYNAMIC_DISPATCH(BackwardTaskKernel)(args, phase[task], scratch + worker * scratch_floats);
    });
  }
}

}  // namespace ftune::cpu
#endif
