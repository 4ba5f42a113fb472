// Dropout whose draws depend on coordinates only: element (token, column) takes word column % 4 of the Philox
// block with key (first 64 bits of Philox(seed; step, site)) and counter (global token, column / 4). So any
// split of the rows over calls, ranks and threads draws the same.
#pragma once

#include "engine/backend/cpu/parallel.h"
#include "engine/backend/ops.h"

namespace ftune::cpu {

void Dropout(ThreadPool& pool, const Tensor& x, const DropoutArgs& args, bool accumulate, const Tensor& y);

}  // namespace ftune::cpu
