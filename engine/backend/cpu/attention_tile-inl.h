// Parts of attention that its two passes share; compiled once for each instruction set.

#if defined(FTUNE_ENGINE_BACKEND_CPU_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FTUNE_ENGINE_BACKEND_CPU_ATTENTION_TILE_INL_H_
#undef FTUNE_ENGINE_BACKEND_CPU_ATTENTION_TILE_INL_H_
#else
#define FTUNE_ENGINE_BACKEND_CPU_ATTENTION_TILE_INL_H_
#endif

#include <algorithm>
#include <limits>

#include "engine/backend/cpu/attention_plan.h"
#include "engine/backend/cpu/tile_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
static_assert(kScoreMargin == kBlockRows);

// One head's columns of some rows of a tensor.
struct HeadRows {
  float* data;
  int64_t stride;
  float* Row(int64_t row) const { return data + row * stride; }
};
HWY_INLINE HeadRows HeadOf(const Tensor& x, int64_t first_row, int64_t head, int64_t head_dim) {
  return {x.f32() + first_row * x.stride() + head * head_dim, x.stride()};
}

// to[row] = from[row], padded with zeros to `padded` columns.
inline void PackRows(const HeadRows& from, Range rows, int64_t dim, int64_t padded, float* to) {
  for (int64_t row = rows.begin; row < rows.end; ++row, to += padded) {
    ForVectors(
        dim, [&](auto part, int64_t i) HWY_ATTR { hn::StoreU(part.Load(from.Row(row) + i), F32(), to + i); });
    for (int64_t i = RoundUp(dim, Lanes()); i < padded; i += Lanes())
      hn::StoreU(hn::Zero(F32()), F32(), to + i);
  }
}

// to[column][row] = from[row][column] for 4 x 4 values.
HWY_INLINE void Transpose4x4(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < 16; ++i) to[i % 4 * to_stride + i / 4] = from[i / 4 * from_stride + i % 4];
#else
  const hn::CappedTag<float, 4> d;
  const auto r0 = hn::LoadU(d, from);
  const auto r1 = hn::LoadU(d, from + from_stride);
  const auto r2 = hn::LoadU(d, from + 2 * from_stride);
  const auto r3 = hn::LoadU(d, from + 3 * from_stride);
  const auto low02 = hn::InterleaveLower(d, r0, r2), high02 = hn::InterleaveUpper(d, r0, r2);
  const auto low13 = hn::InterleaveLower(d, r1, r3), high13 = hn::InterleaveUpper(d, r1, r3);
  hn::StoreU(hn::InterleaveLower(d, low02, low13), d, to);
  hn::StoreU(hn::InterleaveUpper(d, low02, low13), d, to + to_stride);
  hn::StoreU(hn::InterleaveLower(d, high02, high13), d, to + 2 * to_stride);
  hn::StoreU(hn::InterleaveUpper(d, high02, high13), d, to + 3 * to_stride);
#endif
}

// to[column][row] = from[row][column], rows of kKeyStride; what lies beyond the rows, up to a vector's end,
// is zero.
inline void PackTransposed(const HeadRows& from, Range rows, int64_t dim, float* to) {
  const int64_t count = rows.size();
  const int64_t whole_rows = count / 4 * 4;
  const int64_t whole_columns = dim / 4 * 4;
  // A cache line's worth of rows at a time, so that lines are written as a whole.
  for (int64_t row = 0; row < whole_rows; row += kLanePad) {
    const int64_t end = std::min(row + kLanePad, whole_rows);
    for (int64_t c = 0; c < whole_columns; c += 4) {
      for (int64_t r = row; r < end; r += 4) {
        Transpose4x4(from.Row(rows.begin + r) + c, from.stride, to + c * kKeyStride + r, kKeyStride);
      }
    }
  }
  for (int64_t c = 0; c < dim; ++c) {
    float* column = to + c * kKeyStride;
    for (int64_t r = c < whole_columns ? whole_rows : 0; r < count; ++r)
      column[r] = from.Row(rows.begin + r)[c];
    std::fill(column + count, column + RoundUp(count, kLanePad), 0.0f);
  }
}

// Extent of the keys that rows [first, first + rows) of a tile see, counted from the key tile's begin.
HWY_INLINE Range SeenByStrip(const Visibility& visibility, Range key_tile, int64_t first, int64_t rows) {
  return {visibility.KeysIn(key_tile, first).begin, visibility.KeysIn(key_tile, first + rows - 1).end};
}

// The whole vectors around `seen`.
HWY_INLINE Range WholeVectors(Range seen) {
  return {seen.begin / kLanePad * kLanePad, RoundUp(seen.end, kLanePad)};
}

// How products of queries and keys become scores: factor * product, or factor * tanh(inner * product).
struct ScoreRule {
  explicit ScoreRule(const AttentionShape& shape)
      : capped(shape.softcap != 0.0f),
        inner(capped ? shape.scale / shape.softcap : 1.0f),
        factor(capped ? shape.softcap : shape.scale) {}
  bool capped;
  float inner;
  float factor;
};

// products = tanh(inner * products), which leaves `factor` to be applied, as without a cap.
HWY_INLINE void CapProducts(const ScoreRule& rule, int64_t rows, Range columns, float* products) {
  for (int64_t r = 0; r < rows; ++r, products += kScoreStride) {
    for (int64_t j = columns.begin; j < columns.end; j += Lanes()) {
      hn::StoreU(Tanh(hn::Mul(hn::LoadU(F32(), products + j), Set(rule.inner))), F32(), products + j);
    }
  }
}

// Sets what a row does not see, as far as its strip's products reach, to `value`; returns that reach. `row`
// has kLanePad floats of room before and behind its `keys`.
HWY_INLINE Range MaskRow(Range seen, int64_t keys, float value, float* row) {
  const Range reach = {std::max<int64_t>(0, (seen.begin - kScoreMargin)) / kLanePad * kLanePad,
                       RoundUp(std::min(keys, seen.end + kScoreMargin), kLanePad)};
  const VF masked = Set(value);
  for (int64_t j = seen.end; j < reach.end; j += Lanes()) hn::StoreU(masked, F32(), row + j);
  for (int64_t j = seen.begin; j > reach.begin; j -= Lanes()) hn::StoreU(masked, F32(), row + j - Lanes());
  return reach;
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
