// The matrix product of the CPU backend: one interface over oneDNN.
#pragma once

#include <cstdint>

#include "engine/backend/cpu/parallel.h"

namespace ftune::cpu {

// Row-major matrix; `transposed` tells that the operand is its transpose.
struct GemmOperand {
  const float* data;
  int64_t stride;
  bool transposed;
};

// c[m, n] = alpha * a[m, k] b[k, n] + beta * c. With beta 0, c is not read. The same bits for any number of
// threads: c is cut into tiles by shape alone, each the work of one thread. `scratch` has
// GemmScratchFloats of the operands for each thread of the pool.
void Gemm(ThreadPool& pool, int64_t m, int64_t n, int64_t k, float alpha, const GemmOperand& a,
          const GemmOperand& b, float beta, float* c, int64_t c_stride, float* scratch);

// Of their strides and whether they are transposed, not of their data.
int64_t GemmScratchFloats(const GemmOperand& a, const GemmOperand& b);

}  // namespace ftune::cpu
