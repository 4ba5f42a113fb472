// RMS normalisation.
#pragma once

#include "engine/backend/cpu/parallel.h"
#include "engine/tensor/tensor.h"

namespace ftune::cpu {

void RmsNormForward(ThreadPool& pool, const Tensor& x, const Tensor& w, float eps, const Tensor& y,
                    const Tensor& rstd);
void RmsNormBackwardInput(ThreadPool& pool, const Tensor& dy, const Tensor& x, const Tensor& w,
                          const Tensor& rstd, const Tensor& dx);
void RmsNormBackwardWeight(ThreadPool& pool, const Tensor& dy, const Tensor& x, const Tensor& rstd,
                           const Tensor& dw, const Tensor& workspace);

}  // namespace ftune::cpu
