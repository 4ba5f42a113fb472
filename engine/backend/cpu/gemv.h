// Products of a few rows with a weight (decoding), bound by the reading of the weight: its rows are converted
// in the first-level cache on their way into the sums.
#pragma once

#include "engine/backend/cpu/parallel.h"
#include "engine/backend/ops.h"

namespace ftune::cpu {

inline constexpr int64_t kGemvRows = 4;

// c = alpha * a bᵀ + beta * c for a of at most kGemvRows rows; with beta 0, c is not read.
void Gemv(ThreadPool& pool, const MatMulArgs& args);

}  // namespace ftune::cpu
