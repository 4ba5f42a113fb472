// Dropout by the draws of draws.h.
#pragma once

#include "engine/backend/cpu/parallel.h"
#include "engine/backend/ops.h"

namespace ftune::cpu {

void Dropout(ThreadPool& pool, const Tensor& x, const DropoutArgs& args, bool accumulate, const Tensor& y);

}  // namespace ftune::cpu
