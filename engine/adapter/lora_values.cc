#include "engine/adapter/lora_values.h"

#include "base/strings.h"
#include "engine/adapter/lora_names.h"

namespace ftune {

LoraValues FindLoraValues(const LoraModule& lora, const FindParameter& find) {
  const bool embedding = lora.module.kind == AdaptableModule::Kind::kEmbedding;
  const auto value = [&](const char* part) {
    const Parameter* p = find(StrCat(lora.module.name, part));
    return p != nullptr ? p->value : Tensor();
  };
  return {.a = value(embedding ? kLoraEmbeddingA : kLoraA),
          .b = value(embedding ? kLoraEmbeddingB : kLoraB),
          .magnitude = value(kLoraMagnitude)};
}

}  // namespace ftune
