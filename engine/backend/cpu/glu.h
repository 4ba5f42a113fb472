// Activation functions, alone and as gates: f(gate) * up.
#pragma once

#include "engine/backend/activation.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/tensor/tensor.h"

namespace ftune::cpu {

void GluForward(ThreadPool& pool, Activation activation, const Tensor& gate, const Tensor& up,
                const Tensor& out);
void GluBackward(ThreadPool& pool, Activation activation, const Tensor& dout, const Tensor& gate,
                 const Tensor& up, const Tensor& dgate, const Tensor& dup, const Tensor& out);
void ActivationForward(ThreadPool& pool, Activation activation, const Tensor& x, const Tensor& out);
void ActivationBackward(ThreadPool& pool, Activation activation, const Tensor& dout, const Tensor& x,
                        const Tensor& dx, const Tensor& out);

}  // namespace ftune::cpu
