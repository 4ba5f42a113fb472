// Products with weights of any type: those that are not fp32 are converted a panel of rows at a time, or, for
// the few rows of decoding, on the way.
#pragma once

#include "engine/backend/cpu/parallel.h"
#include "engine/backend/ops.h"

namespace ftune::cpu {

// `workspace` has MatMulWorkspaceBytes.
void MatMul(ThreadPool& pool, const MatMulArgs& args, const Tensor& workspace);
// Of a pool of so many threads.
int64_t MatMulWorkspaceBytes(const MatMulArgs& args, int threads);

}  // namespace ftune::cpu
