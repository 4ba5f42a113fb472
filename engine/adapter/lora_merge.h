// An adapter's change of the weights that it sits on.
#pragma once

#include "engine/adapter/lora_values.h"
#include "engine/backend/backend.h"

namespace ftune {

// weight (f32, as the base stores it) becomes what the adapted module computes with.
void MergeLora(Backend& backend, Stream stream, const LoraModule& lora, const LoraValues& values,
               const Tensor& weight);

}  // namespace ftune
