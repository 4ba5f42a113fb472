#include "engine/backend/cpu/gemm.h"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>
#include <cstring>

namespace ftune::cpu {
namespace {

// oneDNN takes its number of threads from OpenMP's setting for the calling thread; a tile is one thread's
// work.
class OneOmpThread {
 public:
  OneOmpThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneOmpThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneOmpThread(const OneOmpThread&) = delete;
  OneOmpThread& operator=(const OneOmpThread&) = delete;

 private:
  int before_;
};

struct TileGrid {
  int64_t rows;  // of a tile
  int64_t cols;
};

// What a product over nothing leaves, which oneDNN does not do.
void ScaleRows(int64_t m, int64_t n, float beta, float* c, int64_t c_stride) {
  for (int64_t i = 0; i < m; ++i, c += c_stride) {
    for (int64_t j = 0; j < n; ++j) c[j] = beta == 0.0f ? 0.0f : beta * c[j];
  }
}

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// Part of an operand as it is stored: rows of the sum over k, columns of a tile.
constexpr int64_t kPartRows = 256, kPartCols = 512;
// Rows that lie whole pages apart share a few sets of the caches; these do not.
constexpr int64_t kPartStride = kPartCols + 16;

// Whether an operand whose stored rows run along k is packed at half the speed for its stride.
bool CollidesInCaches(int64_t stride) { return stride % 512 == 0; }

// Copies [rows, cols] to rows that are kPartStride apart.
void CopyPart(const float* from, int64_t stride, int64_t rows, int64_t cols, float* to) {
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(to + i * kPartStride, from + i * stride, static_cast<size_t>(cols) * sizeof(float));
  }
}

bool CopiesA(const GemmOperand& a) { return a.transposed && CollidesInCaches(a.stride); }
bool CopiesB(const GemmOperand& b) { return !b.transposed && CollidesInCaches(b.stride); }

struct Tile {
  int64_t rows = 0, cols = 0;
  float* c = nullptr;
};

// The part of `x` from row `row` and column `col` of the matrix that it stands for.
GemmOperand From(const GemmOperand& x, int64_t row, int64_t col) {
  return {x.data + (x.transposed ? col * x.stride + row : row * x.stride + col), x.stride, x.transposed};
}

// One tile of c: a [rows, k], b [k, cols].
void MultiplyTile(const Tile& tile, int64_t k, float alpha, const GemmOperand& a, const GemmOperand& b,
                  float beta, int64_t c_stride, float* scratch) {
  const bool copies_a = CopiesA(a), copies_b = CopiesB(b);
  const int64_t depth = copies_a || copies_b ? kPartRows : k;
  const int64_t width = copies_b ? kPartCols : tile.cols;
  float* b_part = scratch + (copies_a ? kPartRows * kPartStride : 0);
  for (int64_t at = 0; at < k; at += depth) {
    const int64_t rows_of_k = std::min(depth, k - at);
    GemmOperand left = From(a, 0, at);
    if (copies_a) {
      CopyPart(left.data, left.stride, rows_of_k, tile.rows, scratch);
      left = {scratch, kPartStride, true};
    }
    for (int64_t col = 0; col < tile.cols; col += width) {
      const int64_t cols = std::min(width, tile.cols - col);
      GemmOperand right = From(b, at, col);
      if (copies_b) {
        CopyPart(right.data, right.stride, rows_of_k, cols, b_part);
        right = {b_part, kPartStride, false};
      }
      dnnl_sgemm(left.transposed ? 'T' : 'N', right.transposed ? 'T' : 'N', tile.rows, cols, rows_of_k, alpha,
                 left.data, left.stride, right.data, right.stride, at == 0 ? beta : 1.0f, tile.c + col,
                 c_stride);
    }
  }
}

// Tiles are as tall as may be, since the columns of b that a tile packs serve all of its rows, and an even
// number where there are several. Measured on SmolLM2's products with two threads; see
// tests/bench/kernels_bench.cc.
TileGrid Grid(int64_t m, int64_t n, int64_t k) {
  constexpr double kTileWork = 64e6;  // multiply-adds: about a millisecond
  constexpr int64_t kMostTiles = 64;
  constexpr int64_t kTallest = kPartCols, kLeastRows = 64, kLeastCols = 144;
  constexpr int64_t kFew = 4;
  const double work = static_cast<double>(m) * n * k;
  int64_t tiles = std::clamp<int64_t>(static_cast<int64_t>(work / kTileWork), 1, kMostTiles);
  if (tiles == 1 && work > 2e6) tiles = 2;
  int64_t row_tiles = (m + kTallest - 1) / kTallest;
  int64_t col_tiles =
      std::clamp<int64_t>((tiles + row_tiles - 1) / row_tiles, 1, std::max<int64_t>(1, n / kLeastCols));
  const int64_t wanted = std::min(tiles, kFew);
  if (row_tiles * col_tiles < wanted) {  // too few columns
    row_tiles = std::max(
        row_tiles, std::min((wanted + col_tiles - 1) / col_tiles, std::max<int64_t>(1, m / kLeastRows)));
  }
  if (row_tiles * col_tiles > 1 && row_tiles * col_tiles % 2 == 1) ++col_tiles;
  return {RoundUp((m + row_tiles - 1) / row_tiles, 16), RoundUp((n + col_tiles - 1) / col_tiles, 16)};
}

}  // namespace

void Gemm(ThreadPool& pool, int64_t m, int64_t n, int64_t k, float alpha, const GemmOperand& a,
          const GemmOperand& b, float beta, float* c, int64_t c_stride, float* scratch) {
  if (m == 0 || n == 0) return;
  if (k == 0) return ScaleRows(m, n, beta, c, c_stride);
  const TileGrid grid = Grid(m, n, k);
  const int64_t row_tiles = (m + grid.rows - 1) / grid.rows;
  const int64_t col_tiles = (n + grid.cols - 1) / grid.cols;
  const int64_t scratch_each = GemmScratchFloats(a, b);
  pool.Run(row_tiles * col_tiles, [&](int64_t chunk, int worker) {
    const OneOmpThread one;
    const int64_t row = chunk % row_tiles * grid.rows;
    const int64_t col = chunk / row_tiles * grid.cols;
    const Tile tile = {std::min(grid.rows, m - row), std::min(grid.cols, n - col), c + row * c_stride + col};
    MultiplyTile(tile, k, alpha, From(a, row, 0), From(b, 0, col), beta, c_stride,
                 scratch + worker * scratch_each);
  });
}

int64_t GemmScratchFloats(const GemmOperand& a, const GemmOperand& b) {
  return (int64_t{CopiesA(a)} + int64_t{CopiesB(b)}) * kPartRows * kPartStride;
}

}  // namespace ftune::cpu
