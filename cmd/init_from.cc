#include "cmd/init_from.h"

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "cmd/adapter_options.h"
#include "cmd/base_checkpoint.h"
#include "cmd/checkpoint/find_checkpoint.h"
#include "cmd/recipe/resume.h"
#include "cmd/report/run_log.h"
#include "cmd/run_folder.h"
#include "engine/checkpoint/checkpoint_weights.h"
#include "engine/checkpoint/manifest.h"
#include "engine/format/adapter_base.h"
#include "engine/format/model_config.h"
#include "engine/format/peft.h"
#include "engine/format/quantized_weights.h"
#include "engine/format/trained_values.h"

namespace ftune {
namespace {

// The weights of model.init_from are for the model that the recipe names: tokens may have been added to it,
// and its positions scaled.
absl::Status CheckSameModel(const LoadedRecipe& loaded, const std::filesystem::path& from) {
  FTUNE_ASSIGN_OR_RETURN(const ModelConfig named, ReadModelConfig(loaded.recipe.model.here));
  FTUNE_ASSIGN_OR_RETURN(const ModelConfig source, ReadModelConfig(from));
  ModelConfig expected = source;
  expected.vocab_size = named.vocab_size;
  expected.max_position = named.max_position;
  expected.rope = named.rope;
  expected.eos_ids = named.eos_ids;
  expected.bos_id = named.bos_id;
  if (expected == named) return absl::OkStatus();
  const auto describe = [](const ModelConfig& c) {
    return StrCat(c.model_type, " of ", c.num_layers, " layers, hidden_size ", c.hidden_size);
  };
  ErrorDetail detail = loaded.At("model.init_from");
  detail.message = "these weights are for another model than model.path";
  detail.found = describe(source);
  detail.expected = StrCat(describe(named), ", the same in all settings but the vocabulary and the context");
  return UsageError(std::move(detail));
}

absl::Status CheckQuantization(const LoadedRecipe& loaded, const std::optional<DType>& asked,
                               const std::optional<DType>& has) {
  if (asked == has) return absl::OkStatus();
  ErrorDetail detail = loaded.At("adapter.quantize");
  detail.found = QuantizationName(asked);
  detail.expected = StrCat(QuantizationName(has), ", which the adapter in model.init_from was trained on");
  return UsageError(std::move(detail));
}

absl::Status NeedsAdapter(const LoadedRecipe& loaded, const std::string& found,
                          const std::string& otherwise) {
  ErrorDetail detail = loaded.At("model.init_from");
  detail.found = StrCat(found, ", in a recipe without one");
  detail.expected = StrCat(otherwise, ", or a recipe with an adapter section");
  return UsageError(std::move(detail));
}

// The base of an adapter, where that is a checkpoint's weights: under all else that is trained.
absl::Status PutUnder(ModelPlan& plan, const std::string& file) {
  if (!plan.base_checkpoint) return absl::OkStatus();
  FTUNE_ASSIGN_OR_RETURN(const CheckpointBase under, OpenCheckpointBase(*plan.base_checkpoint, file));
  plan.options.trained.insert(plan.options.trained.begin(), under.trained.begin(), under.trained.end());
  return absl::OkStatus();
}

// What the adapter of a checkpoint is.
absl::StatusOr<LoraOptions> AdapterOf(const Manifest& manifest, const AdapterSection& made,
                                      const std::string& file) {
  if (manifest.adapter.empty()) return ToLoraOptions(made);
  FTUNE_ASSIGN_OR_RETURN(const PeftConfig config, ParsePeftConfig(manifest.adapter, file));
  return config.lora;
}

// The weights of a checkpoint: of the model, or of an adapter that the recipe then goes on with.
absl::Status ApplyCheckpoint(LoadedRecipe& loaded, ModelPlan& plan, const CheckpointEntry& checkpoint) {
  FTUNE_ASSIGN_OR_RETURN(const auto weights, CheckpointWeights::Open(checkpoint.folder));
  plan.checkpoint = checkpoint.folder;
  loaded.recipe.model.init_from = checkpoint.folder.string();
  plan.options.trained = {weights};
  FTUNE_ASSIGN_OR_RETURN(plan.base_checkpoint, BaseCheckpointOf(loaded.recipe));
  if (!HasAdapterValues(*weights)) return absl::OkStatus();
  if (!loaded.recipe.adapter) {
    return NeedsAdapter(loaded, "the checkpoint of an adapter", "the checkpoint of a model");
  }
  const std::string file = (checkpoint.folder / kManifestName).string();
  FTUNE_ASSIGN_OR_RETURN(const LoadedRecipe made, LoadRunRecipe(weights->manifest().recipe, file));
  if (!made.recipe.adapter) {
    return DataError({.file = file,
                      .key = "recipe",
                      .message = "the checkpoint has an adapter's values, and its recipe no adapter"});
  }
  FTUNE_RETURN_IF_ERROR(PutUnder(plan, file));
  FTUNE_ASSIGN_OR_RETURN(const ModelFiles base, OpenModel(plan.model_path));
  FTUNE_ASSIGN_OR_RETURN(LoraOptions lora, AdapterOf(weights->manifest(), *made.recipe.adapter, file));
  FTUNE_ASSIGN_OR_RETURN(plan.options.lora, ContinueAdapter(loaded, std::move(lora), file, base.config));
  return CheckQuantization(loaded, plan.options.quantize, ToDType(*made.recipe.adapter->quantize));
}

// The checkpoint that stands for what a run has come to: where it has ended, that of its result's step, if
// it is there and says all of an adapter; else its newest. Nothing where that is in no checkpoint.
absl::StatusOr<std::optional<CheckpointEntry>> CheckpointOfInit(const std::string& from,
                                                                const HubReporter& reporter) {
  const RunPaths run(from);
  FTUNE_ASSIGN_OR_RETURN(const bool ended, HasEnded(run.log()));
  const bool has_result =
      Exists(run.model() / "config.json") || Exists(run.adapter() / "adapter_config.json");
  if (IsCheckpoint(from) || !ended || !has_result) return FindCheckpoint(from, std::nullopt, reporter.say);
  FTUNE_ASSIGN_OR_RETURN(const std::optional<int64_t> step, LastResultOf(run.log()));
  if (!step || !Exists(run.checkpoints())) return std::optional<CheckpointEntry>();
  const absl::StatusOr<std::optional<CheckpointEntry>> found = FindCheckpoint(from, *step, nullptr);
  if (!found.ok() || !*found) return std::optional<CheckpointEntry>();
  FTUNE_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest((*found)->folder));
  const bool of_adapter = Exists(run.adapter() / "adapter_config.json");
  return of_adapter && manifest.adapter.empty() ? std::optional<CheckpointEntry>() : *found;
}

}  // namespace

absl::Status ApplyInitFrom(LoadedRecipe& loaded, ModelPlan& plan, const HubReporter& reporter) {
  const std::string from = *loaded.recipe.model.init_from;
  FTUNE_ASSIGN_OR_RETURN(const std::optional<CheckpointEntry> checkpoint, CheckpointOfInit(from, reporter));
  if (checkpoint) return ApplyCheckpoint(loaded, plan, *checkpoint);
  FTUNE_ASSIGN_OR_RETURN(const RunModel source, FindRunModel(from, loaded.recipe.model.here, reporter));
  const bool is_run = Exists(RunPaths(from).recipe());
  if (source.adapters.empty()) {
    FTUNE_RETURN_IF_ERROR(CheckSameModel(loaded, source.model));
    if (is_run) loaded.recipe.model.init_from = source.model.string();
    plan.model_path = source.model;
    plan.tokenizer = source.model;
    return absl::OkStatus();
  }
  const std::filesystem::path& folder = source.adapters.front();
  if (!loaded.recipe.adapter) return NeedsAdapter(loaded, "the folder of an adapter", "a model's folder");
  if (is_run) loaded.recipe.model.init_from = folder.string();
  FTUNE_ASSIGN_OR_RETURN(const ModelConfig base, ReadModelConfig(plan.model_path));
  FTUNE_ASSIGN_OR_RETURN(PeftConfig peft, ReadPeftConfig(folder));
  FTUNE_ASSIGN_OR_RETURN(plan.options.lora, ContinueAdapter(loaded, std::move(peft.lora),
                                                            (folder / "adapter_config.json").string(), base));
  plan.options.adapters = {folder};
  plan.options.trained = source.trained;
  plan.base_checkpoint = source.base_checkpoint;
  if (Exists(folder / "tokenizer.json")) plan.tokenizer = folder;
  FTUNE_ASSIGN_OR_RETURN(const std::optional<DType> quantize, ReadAdapterBase(folder));
  return CheckQuantization(loaded, plan.options.quantize, quantize);
}

absl::Status ApplyInitInCheckpoint(LoadedRecipe& loaded, ModelPlan& plan, const InitInCheckpoint& init) {
  if (!loaded.recipe.adapter) return absl::OkStatus();
  const std::string file = init.file.string();
  FTUNE_ASSIGN_OR_RETURN(PeftConfig peft, ParsePeftConfig(init.adapter, file));
  if (NamesCheckpoint(peft.base_model)) plan.base_checkpoint = peft.base_model;
  FTUNE_RETURN_IF_ERROR(PutUnder(plan, file));
  FTUNE_ASSIGN_OR_RETURN(const ModelConfig base, ReadModelConfig(plan.model_path));
  FTUNE_ASSIGN_OR_RETURN(plan.options.lora, ContinueAdapter(loaded, std::move(peft.lora), file, base));
  return absl::OkStatus();
}

}  // namespace ftune
