#include "engine/format/loaded_model.h"

#include "base/error.h"
#include "base/strings.h"
#include "engine/format/load_weights.h"
#include "engine/format/lora_files.h"

namespace ftune {

absl::StatusOr<LoadedModel> LoadModel(Backend& backend, Stream stream, const std::filesystem::path& path,
                                      const LoadModelOptions& options) {
  LoadedModel loaded;
  FTUNE_ASSIGN_OR_RETURN(loaded.files, OpenModel(path));
  if (options.context) {
    loaded.files.config.rope = options.context->rope;
    loaded.files.config.max_position = options.context->max_position;
  }
  const ModelConfig& config = loaded.files.config;

  PeftAdapter peft;
  if (options.lora_folder) {
    FTUNE_ASSIGN_OR_RETURN(peft, OpenPeftAdapter(*options.lora_folder));
    loaded.lora = ToLoraOptions(peft.config);
  }
  if (options.new_lora) {
    // A recipe's adapter that goes on from an earlier one must have its shape.
    if (loaded.lora && loaded.lora->rank != options.new_lora->rank) {
      return UsageError(
          {.file = options.lora_folder->string(),
           .key = "adapter.lora_r",
           .found = StrCat(options.new_lora->rank),
           .expected = StrCat(loaded.lora->rank, ", the rank of the adapter in model.init_from")});
    }
    loaded.lora = options.new_lora;
  }
  AdapterFactory adapter;
  if (loaded.lora) {
    FTUNE_ASSIGN_OR_RETURN(loaded.targets, LoraTargets::Resolve(*loaded.lora, config));
    adapter = MakeLoraFactory(*loaded.lora, *loaded.targets);
  }

  const StorageOptions storage = {
      .trainable = options.trainable ? options.trainable : [](const std::string&) { return false; },
      .trainable_dtype = options.trainable_dtype,
      .frozen_dtype = options.frozen_dtype};
  const int64_t max_length = options.max_length > 0 ? options.max_length : config.max_position;
  loaded.model = std::make_unique<Model>(
      backend, stream, config, MakeParameterPolicy(storage, *loaded.files.weights, std::move(adapter)),
      max_length);
  FTUNE_RETURN_IF_ERROR(LoadWeights(backend, stream, *loaded.model, *loaded.files.weights));
  if (peft.weights != nullptr) {
    FTUNE_RETURN_IF_ERROR(LoadLoraWeights(backend, stream, *loaded.model, *peft.weights));
  } else if (loaded.lora) {
    InitLoraValues(backend, stream, loaded.model->parameters(), options.seed);
  }
  return loaded;
}

}  // namespace ftune
