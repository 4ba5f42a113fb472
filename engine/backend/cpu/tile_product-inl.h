// Small matrix products in registers, for operands that lie in the caches; compiled once for each instruction
// set.

#if defined(FTUNE_ENGINE_BACKEND_CPU_TILE_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FTUNE_ENGINE_BACKEND_CPU_TILE_PRODUCT_INL_H_
#undef FTUNE_ENGINE_BACKEND_CPU_TILE_PRODUCT_INL_H_
#else
#define FTUNE_ENGINE_BACKEND_CPU_TILE_PRODUCT_INL_H_
#endif

#include "engine/backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {

// Rows of a block. With kBlockVectors vectors it takes 24 accumulators where there are 32 registers, 12
// of 16.
inline constexpr int kBlockRows = 6;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SCALAR
inline constexpr int kBlockVectors = 2;
#else
inline constexpr int kBlockVectors = 4;
#endif

// a(i, p) = data[i * row + p * inner], in any layout: its elements are broadcast.
struct TileA {
  const float* data;
  int64_t row;
  int64_t inner;
};

template <int kRows, int kVectors>
HWY_INLINE void ProductBlock(int64_t k, const TileA& a, const float* b, int64_t ldb, float* c, int64_t ldc,
                             bool accumulate) {
  VF sums[kRows][kVectors];
  HWY_UNROLL(8)
  for (int i = 0; i < kRows; ++i) {
    HWY_UNROLL(4)
    for (int j = 0; j < kVectors; ++j) {
      sums[i][j] = accumulate ? hn::LoadU(F32(), c + i * ldc + j * Lanes()) : hn::Zero(F32());
    }
  }
  const float* ap = a.data;
  for (int64_t p = 0; p < k; ++p, ap += a.inner, b += ldb) {
    VF vb[kVectors];
    HWY_UNROLL(4)
    for (int j = 0; j < kVectors; ++j) vb[j] = hn::LoadU(F32(), b + j * Lanes());
    HWY_UNROLL(8)
    for (int i = 0; i < kRows; ++i) {
      const VF va = Set(ap[i * a.row]);
      HWY_UNROLL(4)
      for (int j = 0; j < kVectors; ++j) sums[i][j] = hn::MulAdd(va, vb[j], sums[i][j]);
    }
  }
  HWY_UNROLL(8)
  for (int i = 0; i < kRows; ++i) {
    HWY_UNROLL(4)
    for (int j = 0; j < kVectors; ++j) hn::StoreU(sums[i][j], F32(), c + i * ldc + j * Lanes());
  }
}

template <int kVectors>
HWY_INLINE void ProductRows(int64_t rows, int64_t k, const TileA& a, const float* b, int64_t ldb, float* c,
                            int64_t ldc, bool accumulate) {
  switch (rows) {
    case 1:
      return ProductBlock<1, kVectors>(k, a, b, ldb, c, ldc, accumulate);
    case 2:
      return ProductBlock<2, kVectors>(k, a, b, ldb, c, ldc, accumulate);
    case 3:
      return ProductBlock<3, kVectors>(k, a, b, ldb, c, ldc, accumulate);
    case 4:
      return ProductBlock<4, kVectors>(k, a, b, ldb, c, ldc, accumulate);
    case 5:
      return ProductBlock<5, kVectors>(k, a, b, ldb, c, ldc, accumulate);
    default:
      return ProductBlock<6, kVectors>(k, a, b, ldb, c, ldc, accumulate);
  }
}

// c[rows, n] (+)= a[rows, k] b[k, n] for at most kBlockRows rows; n is a multiple of the lanes.
inline void ProductStrip(int64_t rows, int64_t n, int64_t k, const TileA& a, const float* b, int64_t ldb,
                         float* c, int64_t ldc, bool accumulate) {
  const int64_t lanes = Lanes();
  int64_t j = 0;
  for (; j + kBlockVectors * lanes <= n; j += kBlockVectors * lanes) {
    ProductRows<kBlockVectors>(rows, k, a, b + j, ldb, c + j, ldc, accumulate);
  }
  if constexpr (kBlockVectors > 2) {
    for (; j + 2 * lanes <= n; j += 2 * lanes) ProductRows<2>(rows, k, a, b + j, ldb, c + j, ldc, accumulate);
  }
  for (; j < n; j += lanes) ProductRows<1>(rows, k, a, b + j, ldb, c + j, ldc, accumulate);
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
