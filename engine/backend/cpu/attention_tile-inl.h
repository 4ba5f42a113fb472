// Parts of attention that its two passes share; compiled once for each instruction set.

#if defined(FTUNE_ENGINE_BACKEND_CPU_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FTUNE_ENGINE_BACKEND_CPU_ATTENTION_TILE_INL_H_
#undef FTUNE_ENGINE_BACKEND_CPU_ATTENTION_TILE_INL_H_
#else
#define FTUNE_ENGINE_BACKEND_CPU_ATTENTION_TILE_INL_H_
#endif

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

// to[column][row] = from[row][column], rows of kTileKeys; what lies beyond the rows, up to a vector's end, is
// zero.
inline void PackTransposed(const HeadRows& from, Range rows, int64_t dim, float* to) {
  const int64_t count = rows.size();
  const int64_t padded = RoundUp(count, kLanePad);
  for (int64_t row = 0; row < count; ++row) {
    const float* source = from.Row(rows.begin + row);
    for (int64_t i = 0; i < dim; ++i) to[i * kTileKeys + row] = source[i];
  }
  for (int64_t row = count; row < padded; ++row) {
    for (int64_t i = 0; i < dim; ++i) to[i * kTileKeys + row] = 0.0f;
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
