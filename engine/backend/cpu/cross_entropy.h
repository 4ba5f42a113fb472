// The loss of a row of logits and its gradient, in place.
#pragma once

#include "engine/backend/cpu/parallel.h"
#include "engine/tensor/tensor.h"

namespace ftune::cpu {

// What is not finite in a row makes its loss not finite.
void CrossEntropy(ThreadPool& pool, const Tensor& logits, const Tensor& labels, float scale, bool gradient,
                  const Tensor& loss);

}  // namespace ftune::cpu
