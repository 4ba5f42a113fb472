// Layer normalisation.
#pragma once

#include "engine/backend/cpu/parallel.h"
#include "engine/tensor/tensor.h"

namespace ftune::cpu {

void LayerNormForward(ThreadPool& pool, const Tensor& x, const Tensor& w, const Tensor& b, float eps,
                      const Tensor& y, const Tensor& stats);
void LayerNormBackwardInput(ThreadPool& pool, const Tensor& dy, const Tensor& x, const Tensor& w,
                            const Tensor& stats, const Tensor& dx);
void LayerNormBackwardWeight(ThreadPool& pool, const Tensor& dy, const Tensor& x, const Tensor& stats,
                             const Tensor& dw, const Tensor& db, const Tensor& workspace);

}  // namespace ftune::cpu
