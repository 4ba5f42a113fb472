#include "engine/adapter/lora_merge.h"

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

void MergeLora(Backend& backend, Stream stream, const LoraModule& lora, const LoraValues& values,
               const Tensor& weight) {
  if (lora.module.kind == AdaptableModule::Kind::kEmbedding) {
    backend.MatMul(stream, {.a = values.a,
                            .b = values.b,
                            .trans_b = true,
                            .c = weight,
                            .alpha = lora.scale,
                            .beta = 1.0f});
  } else if (lora.module.transposed) {
    backend.MatMul(stream, {.a = values.a,
                            .trans_a = true,
                            .b = values.b,
                            .trans_b = true,
                            .c = weight,
                            .alpha = lora.scale,
                            .beta = 1.0f});
  } else {
    backend.MatMul(stream,
                   {.a = values.b, .b = values.a, .c = weight, .alpha = lora.scale, .beta = 1.0f});
  }
}

}  // namespace ftune
