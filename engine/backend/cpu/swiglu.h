// The gated activation silu(gate) * up.
#pragma once

#include "engine/backend/cpu/parallel.h"
#include "engine/tensor/tensor.h"

namespace ftune::cpu {

void SwiGluForward(ThreadPool& pool, const Tensor& gate, const Tensor& up, const Tensor& out);
void SwiGluBackward(ThreadPool& pool, const Tensor& dout, const Tensor& gate, const Tensor& up,
                    const Tensor& dgate, const Tensor& dup, const Tensor& out);

}  // namespace ftune::cpu
