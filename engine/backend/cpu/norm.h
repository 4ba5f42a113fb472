// RMS normalisation.
#pragma once

#include "engine/backend/cpu/parallel.h"
#include "engine/backend/ops.h"

namespace ftune::cpu {

void RmsNormForward(ThreadPool& pool, const Tensor& x, const Tensor& w, const NormOptions& options,
                    const Tensor& y, const Tensor& rstd);
void RmsNormBackwardInput(ThreadPool& pool, const Tensor& dy, const Tensor& x, const Tensor& w,
                          const NormOptions& options, const Tensor& rstd, bool accumulate, const Tensor& dx);
void RmsNormBackwardWeight(ThreadPool& pool, const Tensor& dy, const Tensor& x, const NormOptions& options,
                           const Tensor& rstd, const Tensor& dw, const Tensor& workspace);

}  // namespace ftune::cpu
