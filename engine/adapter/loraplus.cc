#include "engine/adapter/loraplus.h"

#include "engine/adapter/lora_names.h"

namespace ftune {

void SetLoraPlusRates(const std::vector<Parameter*>& parameters, const LoraPlusOptions& options) {
  for (Parameter* p : parameters) {
    if (p->name.ends_with(kLoraEmbeddingA) || p->name.ends_with(kLoraEmbeddingB)) {
      p->lr_factor = options.embedding_factor;
    } else if (p->name.ends_with(kLoraB) || p->shape.size() == 1) {
      p->lr_factor = options.ratio;
    }
  }
}

}  // namespace ftune
