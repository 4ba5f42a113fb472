// An adapter's change of the weights that it sits on.
#pragma once

#include <functional>
#include <string>

#include "engine/adapter/lora_targets.h"
#include "engine/backend/backend.h"
#include "engine/model/parameter_store.h"

namespace ftune {

// The parameter of that name, or nullptr.
using FindParameter = std::function<const Parameter*(const std::string& name)>;

// What an adapter has for one module, f32.
struct LoraValues {
  Tensor a;          // [rank, in]; of an embedding [vocab, rank]
  Tensor b;          // [out, rank]
  Tensor magnitude;  // [1, out], with DoRA
};
LoraValues FindLoraValues(const LoraModule& lora, const FindParameter& find);

// weight (f32, as the base stores it) becomes what the adapted module computes with.
void MergeLora(Backend& backend, Stream stream, const LoraModule& lora, const LoraValues& values,
               const Tensor& weight);

}  // namespace ftune
