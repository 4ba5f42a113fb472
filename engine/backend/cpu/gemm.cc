#include "engine/backend/cpu/gemm.h"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>
#include <cmath>

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

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

TileGrid Grid(int64_t m, int64_t n, int64_t k) {
  constexpr double kTileWork = 64e6;  // multiply-adds: about a millisecond
  constexpr int64_t kMostTiles = 64;
  const double work = static_cast<double>(m) * n * k;
  int64_t tiles = std::clamp<int64_t>(static_cast<int64_t>(work / kTileWork), 1, kMostTiles);
  if (tiles == 1 && work > 2e6) tiles = 2;
  // Near-square tiles pack the least for their work.
  const double side = std::sqrt(static_cast<double>(m) * n / tiles);
  const int64_t row_tiles = std::clamp<int64_t>(std::llround(m / side), 1, tiles);
  const int64_t col_tiles = std::max<int64_t>(1, (tiles + row_tiles - 1) / row_tiles);
  return {RoundUp((m + row_tiles - 1) / row_tiles, 16), RoundUp((n + col_tiles - 1) / col_tiles, 48)};
}

}  // namespace

void Gemm(ThreadPool& pool, int64_t m, int64_t n, int64_t k, float alpha, const GemmOperand& a,
          const GemmOperand& b, float beta, float* c, int64_t c_stride) {
  if (m == 0 || n == 0) return;
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
