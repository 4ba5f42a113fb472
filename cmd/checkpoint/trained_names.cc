#include "cmd/checkpoint/trained_names.h"

#include <algorithm>

#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "cmd/recipe/resume.h"
#include "engine/adapter/module_pattern.h"
#include "engine/format/hf_model.h"
#include "engine/model/modules.h"

namespace ftune {
namespace {

// Of a run that trains the model itself, where the model's files are here; else nothing is known.
std::vector<std::string> NamesByRecipe(const Manifest& manifest, const std::string& file) {
  std::vector<std::string> names;
  const absl::StatusOr<LoadedRecipe> made = LoadRunRecipe(manifest.recipe, file);
  if (!made.ok() || made->recipe.adapter || !Exists(made->recipe.model.path)) return names;
  const absl::StatusOr<ModelFiles> files = OpenModel(made->recipe.model.path);
  if (!files.ok()) return names;
  std::vector<ModulePattern> frozen;
  for (const std::string& text : made->recipe.train.freeze) {
    absl::StatusOr<ModulePattern> pattern = ModulePattern::Compile(text);
    if (!pattern.ok()) return names;
    frozen.push_back(*std::move(pattern));
  }
  for (const ParameterShape& parameter : ModelParameters(files->config)) {
    const bool stays = std::any_of(frozen.begin(), frozen.end(), [&](const ModulePattern& pattern) {
      return pattern.MatchesPart(parameter.name);
    });
    if (!stays) names.push_back(parameter.name);
  }
  return names;
}

}  // namespace

std::vector<std::string> TrainedNames(const LoadedModel& model, const LoadModelOptions& options) {
  std::vector<std::string> names;
  if (!model.lora) {
    for (const ParameterShape& parameter : ModelParameters(model.files.config)) {
      if (!options.trainable || options.trainable(parameter.name)) names.push_back(parameter.name);
    }
    return names;
  }
  for (const ParameterShape& parameter : ModelParameters(model.files.config)) {
    if (model.targets->Saves(parameter.name)) names.push_back(parameter.name);
  }
  return names;
}

absl::Status CheckHasValues(const Manifest& manifest, const std::vector<std::string>& trained,
                            const std::string& file) {
  for (const std::string& name : trained) {
    if (manifest.values.contains(name)) continue;
    return DataError({.file = file,
                      .key = name,
                      .message = "the checkpoint lacks a parameter that its run trains",
                      .hint = "the manifest is damaged: use another checkpoint"});
  }
  return absl::OkStatus();
}

RunNames NamesInRun(const std::vector<CheckpointEntry>& checkpoints) {
  RunNames names;
  for (const CheckpointEntry& entry : checkpoints) {
    const absl::StatusOr<Manifest> manifest = ReadManifest(entry.folder);
    if (!manifest.ok()) continue;
    for (const auto& [name, value] : manifest->values) names[manifest->model].insert(name);
  }
  return names;
}

absl::Status CheckComplete(const Manifest& manifest, const RunNames& run, const std::string& file) {
  std::vector<std::string> names;
  for (const auto& [name, states] : manifest.optimizer) names.push_back(name);
  FTUNE_RETURN_IF_ERROR(CheckHasValues(manifest, names, file));
  FTUNE_RETURN_IF_ERROR(CheckHasValues(manifest, NamesByRecipe(manifest, file), file));
  const auto others = run.find(manifest.model);
  if (others == run.end()) return absl::OkStatus();
  return CheckHasValues(manifest, {others->second.begin(), others->second.end()}, file);
}

}  // namespace ftune
