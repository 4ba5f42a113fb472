#include "engine/format/lora_files.h"

#include <cmath>
#include <set>

#include "base/error.h"
#include "base/strings.h"
#include "engine/format/load_weights.h"
#include "engine/format/model_tensors.h"

namespace ftune {

LoraOptions ToLoraOptions(const PeftConfig& config) {
  // rsLoRA scales by alpha / sqrt(r) where LoRA scales by alpha / r: LoRA with another alpha.
  const double rank = static_cast<double>(config.r);
  return {.rank = config.r,
          .alpha = config.use_rslora ? config.alpha * std::sqrt(rank) : config.alpha,
          .dropout = config.dropout,
          .target_modules = config.target_modules};
}

absl::Status LoadLoraWeights(Backend& backend, Stream stream, Model& model, const WeightSource& source) {
  std::set<std::string> used;
  const std::string file = source.tensors().empty() ? "" : source.tensors().front().file;
  for (const Parameter* p : model.parameters()) {
    if (!IsAdapterParameter(p->name)) continue;
    const SourceTensor* tensor = source.Find(p->name);
    if (tensor == nullptr) {
      return DataError(
          {.file = file,
           .key = p->name,
           .message = "the adapter lacks this tensor",
           .hint = "its target_modules and rank must be those of the adapter_config.json beside it"});
    }
    FTUNE_RETURN_IF_ERROR(LoadParameter(backend, stream, *tensor, *p));
    used.insert(p->name);
  }
  for (const SourceTensor& tensor : source.tensors()) {
    if (used.contains(tensor.name)) continue;
    return DataError({.file = tensor.file,
                      .key = tensor.name,
                      .message = "this tensor of the adapter fits no module of the model",
                      .hint = "was the adapter made for another base model?"});
  }
  return absl::OkStatus();
}

absl::Status SaveLora(Backend& backend, Stream stream, Model& model, const LoraOptions& options,
                      const LoraTargets& targets, const std::string& base_model,
                      const std::filesystem::path& folder) {
  PeftConfig config;
  config.r = options.rank;
  config.alpha = options.alpha;
  config.dropout = options.dropout;
  // As the user gave them; all-linear as the names that it stands for, which every reader knows.
  const auto* text = std::get_if<std::string>(&options.target_modules);
  if (text != nullptr && *text == "all-linear") {
    config.target_modules = targets.suffixes();
  } else {
    config.target_modules = options.target_modules;
  }
  config.base_model = base_model;
  return WritePeftAdapter(folder, config, AdapterTensors(backend, stream, model));
}

}  // namespace ftune
