// Rotary position embedding.
#pragma once

#include "engine/backend/cpu/parallel.h"
#include "engine/tensor/tensor.h"

namespace ftune::cpu {

void Rope(ThreadPool& pool, const Tensor& x, const Tensor& positions, const Tensor& table, int64_t head_dim,
          bool inverse);

}  // namespace ftune::cpu
