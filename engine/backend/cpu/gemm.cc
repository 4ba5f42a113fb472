#include "engine/backend/cpu/gemm.h"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>

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

// Tiles are as tall as may be, since the columns of b that a tile packs serve all of its rows, and an even
// number where there are several. Measured on SmolLM2's products with two threads; see
// tests/bench/kernels_bench.cc.
TileGrid Grid(int64_t m, int64_t n, int64_t k) {
  constexpr double kTileWork = 64e6;  // multiply-adds: about a millisecond
  constexpr int64_t kMostTiles = 64;
  constexpr int64_t kTallest = 512, kLeastRows = 64, kLeastCols = 144;
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
          const GemmOperand& b, float beta, float* c, int64_t c_stride) {
  if (m == 0 || n == 0) return;
  if (k == 0) return ScaleRows(m, n, beta, c, c_stride);
  const TileGrid tile = Grid(m, n, k);
  const int64_t row_tiles = (m + tile.rows - 1) / tile.rows;
  const int64_t col_tiles = (n + tile.cols - 1) / tile.cols;
  pool.Run(row_tiles * col_tiles, [&](int64_t chunk, int) {
    const OneOmpThread one;
    const int64_t row = chunk % row_tiles * tile.rows;
    const int64_t col = chunk / row_tiles * tile.cols;
    dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', std::min(tile.rows, m - row),
               std::min(tile.cols, n - col), k, alpha, a.data + (a.transposed ? row : row * a.stride),
               a.stride, b.data + (b.transposed ? col * b.stride : col), b.stride, beta,
               c + row * c_stride + col, c_stride);
  });
}

}  // namespace ftune::cpu
