// The mean of fp32 values with the rounding errors of PyTorch's, which bitsandbytes puts into its scales.
#pragma once

#include <span>

namespace ftune {

// torch.Tensor.mean() of a contiguous vector on a CPU with one thread: the same bits on every CPU. 0 for
// none.
float TorchMean(std::span<const float> values);

}  // namespace ftune
