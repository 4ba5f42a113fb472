#include "engine/adapter/lora.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "base/random.h"
#include "base/strings.h"
#include "engine/adapter/dora.h"
#include "engine/adapter/dora_norms.h"
#include "engine/adapter/lora_names.h"
#include "engine/adapter/lora_values.h"
#include "engine/model/slices.h"

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

// A tied head has the embedding's.
const Parameter& BaseWeight(const LoraModule& lora, Model& model) {
  const Parameter* own = model.Find(StrCat(lora.module.name, ".weight"));
  return own != nullptr ? *own : *model.Find(StrCat(model.config().architecture->names.embedding, ".weight"));
}

void InitValues(Backend& backend, Stream stream, const Parameter& p, uint64_t seed) {
  RandomSequence random(seed, HashName(p.name));
  std::vector<float> whole(p.global_size(), 0.0f);
  if (p.name.ends_with(kLoraA)) {
    FillUniform(1.0f / std::sqrt(static_cast<float>(p.shape[1])), random, whole);
  } else if (p.name.ends_with(kLoraEmbeddingB)) {
    FillNormal(random, whole);
  }
  const std::vector<float> values = SliceOf(p, whole);
  backend.Upload(stream, std::as_bytes(std::span(values)), p.value);
}

bool Owns(const ParameterStore& store, const std::string& name) {
  return std::any_of(store.parameters().begin(), store.parameters().end(),
                     [&](const Parameter& p) { return p.name == name; });
}

}  // namespace

AdapterFactories MakeLoraFactories(const LoraOptions& options, LoraTargets targets) {
  return {.linear = [options, targets](const LinearSite& site,
                                       ParameterStore& store) -> std::unique_ptr<LinearAdapter> {
            const bool adapted =
                std::any_of(site.parts.begin(), site.parts.end(),
                            [&](const LinearPart& part) { return targets.Find(part.module) != nullptr; });
            if (!adapted) return nullptr;
            if (options.dora) return std::make_unique<DoraLinear>(site, targets, options.dropout, store);
            return std::make_unique<LoraLinear>(site, targets, options.dropout, store);
          },
          .embedding = [options, targets](const EmbeddingSite& site,
                                          ParameterStore& store) -> std::unique_ptr<EmbeddingAdapter> {
            const LoraModule* lora = targets.Find(site.module);
            if (lora == nullptr) return nullptr;
            if (options.dora) return std::make_unique<DoraEmbedding>(site, *lora, store);
            return std::make_unique<LoraEmbedding>(site, *lora, store);
          }};
}

void InitLoraValues(Backend& backend, Stream stream, Model& model, const LoraTargets& targets,
                    uint64_t seed) {
  const auto find = [&](const std::string& name) { return model.Find(name); };
  for (size_t i = 0; i < model.blocks().size(); ++i) {
    ParameterStore& store = model.blocks()[i]->store();
    const auto& parameters = store.parameters();
    if (std::none_of(parameters.begin(), parameters.end(),
                     [](const Parameter& p) { return IsAdapterParameter(p.name); })) {
      continue;
    }
    const BlockChange change(model.hooks(), i);
    for (const Parameter& p : parameters) {
      if (IsAdapterParameter(p.name)) InitValues(backend, stream, p, seed);
    }
    for (const LoraModule& lora : targets.modules()) {
      if (!Owns(store, StrCat(lora.module.name, kLoraMagnitude))) continue;
      const LoraValues values = FindLoraValues(lora, find);
      const Parameter& weight = BaseWeight(lora, model);
      DoraNorms(backend, stream, lora, values, weight.value, AxisOfInputs(lora, weight, model.tensor_axis()),
                values.magnitude);
    }
  }
}

}  // namespace ftune
