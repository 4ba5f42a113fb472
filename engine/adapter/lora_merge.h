// An adapter's change of the weights that it sits on.
#pragma once

#include "engine/adapter/lora_values.h"
#include "engine/backend/backend.h"
#include "engine/model/tensor_axis.h"

namespace ftune {

// weight (f32, as the base stores it) becomes what the adapted module computes with. `axis`: the ranks that
// the inputs are cut over.
void MergeLora(Backend& backend, Stream stream, const LoraModule& lora, const LoraValues& values,
               const TensorAxis& axis, const Tensor& weight);

}  // namespace ftune
