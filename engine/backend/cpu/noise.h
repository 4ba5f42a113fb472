// Uniform noise by the draws of draws.h.
#pragma once

#include "engine/backend/cpu/parallel.h"
#include "engine/backend/ops.h"

namespace ftune::cpu {

void UniformNoise(ThreadPool& pool, const NoiseArgs& args, const Tensor& x);

}  // namespace ftune::cpu
