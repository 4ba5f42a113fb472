// What an adapter has for one module.
#pragma once

#include <functional>
#include <string>

#include "engine/adapter/lora_targets.h"
#include "engine/model/parameter_store.h"

namespace ftune {

struct LoraValues {  // f32
  Tensor a;          // [rank, in]; of an embedding [vocab, rank]
  Tensor b;          // [out, rank]
  Tensor magnitude;  // [1, out], with DoRA
};

// The parameter of that name, or nullptr.
using FindParameter = std::function<const Parameter*(const std::string& name)>;
LoraValues FindLoraValues(const LoraModule& lora, const FindParameter& find);

}  // namespace ftune
