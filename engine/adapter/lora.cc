#include "engine/adapter/lora.h"

#include <cmath>
#include <numbers>
#include <span>

#include "base/random.h"
#include "engine/adapter/lora_embedding.h"
#include "engine/adapter/lora_linear.h"
#include "engine/adapter/lora_names.h"

namespace ftune {
namespace {

void FillUniform(float bound, RandomSequence& random, std::vector<float>& values) {
  for (float& value : values) value = (2.0f * random.Uniform() - 1.0f) * bound;
}

// Box and Muller 1958.
void FillNormal(RandomSequence& random, std::vector<float>& values) {
  for (float& value : values) {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - static_cast<double>(random.Uniform())));
    value = static_cast<float>(radius * std::cos(2.0 * std::numbers::pi * random.Uniform()));
  }
}

}  // namespace

AdapterFactories MakeLoraFactories(const LoraOptions& options, LoraTargets targets) {
  return {.linear = [options, targets](const LinearSite& site,
                                       ParameterStore& store) -> std::unique_ptr<LinearAdapter> {
            auto lora = std::make_unique<LoraLinear>(site, targets, options.dropout, store);
            if (lora->parts().empty()) return nullptr;
            return lora;
          },
          .embedding = [options, targets](const EmbeddingSite& site,
                                          ParameterStore& store) -> std::unique_ptr<EmbeddingAdapter> {
            const LoraModule* lora = targets.Find(site.module);
            if (lora == nullptr) return nullptr;
            return std::make_unique<LoraEmbedding>(site, *lora, store);
          }};
}

void InitLoraValues(Backend& backend, Stream stream, Model& model, const LoraTargets& targets, uint64_t seed) {
  for (Parameter* p : model.parameters()) {
    if (!IsAdapterParameter(p->name)) continue;
    RandomSequence random(seed, HashName(p->name));
    std::vector<float> values(p->size(), 0.0f);
    if (p->name.ends_with(kLoraA)) {
      FillUniform(1.0f / std::sqrt(static_cast<float>(p->shape[1])), random, values);
    } else if (p->name.ends_with(kLoraEmbeddingB)) {
      FillNormal(random, values);
    }
    backend.Upload(stream, std::as_bytes(std::span(values)), p->value);
  }
}

}  // namespace ftune
