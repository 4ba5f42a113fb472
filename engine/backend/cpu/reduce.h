// Sums over rows or whole tensors: partial sums over chunks that depend on the shape only, added in order, so
// that the result does not depend on the number of threads.
#pragma once

#include "engine/backend/cpu/parallel.h"
#include "engine/tensor/tensor.h"

namespace ftune::cpu {

// How `rows` rows are cut for a reduction.
struct ReductionChunks {
  int64_t rows_per_chunk;
  int64_t chunks;
};
ReductionChunks ChunksOf(int64_t rows);
int64_t ColumnReductionBytes(int64_t rows, int64_t cols);

// Calls sum(begin, end, partial) for each chunk of [0, rows), which overwrites partial [cols], then adds all
// partials to `total`. `workspace` has ColumnReductionBytes.
template <class SumRows>
void ReduceColumns(ThreadPool& pool, int64_t rows, int64_t cols, const Tensor& workspace, float* total,
                   const SumRows& sum);
// to[i] += from[i]
void AddTo(const float* from, int64_t count, float* to);

void BiasBackward(ThreadPool& pool, const Tensor& dy, const Tensor& dbias, const Tensor& workspace);
void ColumnDot(ThreadPool& pool, const Tensor& a, const Tensor& b, const Tensor& out,
               const Tensor& workspace);
void RowNorms(ThreadPool& pool, const Tensor& x, const Tensor& norms);
void SumSquares(ThreadPool& pool, const Tensor& x, const Tensor& sum, const Tensor& workspace);
void ClipScale(const Tensor& sum, double loss_scale, float max_norm, const Tensor& scale);

template <class SumRows>
void ReduceColumns(ThreadPool& pool, int64_t rows, int64_t cols, const Tensor& workspace, float* total,
                   const SumRows& sum) {
  if (rows == 0) return;
  const ReductionChunks cut = ChunksOf(rows);
  auto* partials = reinterpret_cast<float*>(workspace.bytes());
  ParallelRanges(pool, rows, cut.rows_per_chunk, [&](int64_t begin, int64_t end) {
    sum(begin, end, partials + begin / cut.rows_per_chunk * cols);
  });
  for (int64_t chunk = 0; chunk < cut.chunks; ++chunk) AddTo(partials + chunk * cols, cols, total);
}

}  // namespace ftune::cpu
