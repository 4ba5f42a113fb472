// The norms that DoRA's magnitudes stand against.
#pragma once

#include "engine/adapter/lora_values.h"
#include "engine/backend/backend.h"
#include "engine/model/tensor_axis.h"

namespace ftune {

// norms [1, out] = ‖W + scale B A‖ over the inputs of each output. `weight` is the base's, of any type, as it
// is stored; at most 16 MiB of it are in f32 at a time. `axis`: the ranks that the inputs are cut over.
void DoraNorms(Backend& backend, Stream stream, const LoraModule& lora, const LoraValues& values,
               const Tensor& weight, const TensorAxis& axis, const Tensor& norms);

// For DoraNorms: the axis where it cuts the inputs of the module whose weight this is, else one rank.
TensorAxis AxisOfInputs(const LoraModule& lora, const Parameter& weight, const TensorAxis& axis);

}  // namespace ftune
