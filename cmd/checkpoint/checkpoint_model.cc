#include "cmd/checkpoint/checkpoint_model.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "cmd/checkpoint/trained_names.h"
#include "cmd/recipe/resume.h"
#include "cmd/run_data.h"
#include "cmd/run_options.h"
#include "cmd/train/run_inputs.h"
#include "cmd/train/same_files.h"
#include "engine/checkpoint/checkpoint_weights.h"
#include "engine/model/modules.h"

namespace ftune {
namespace {

// What the recipe names may have been moved since.
absl::Status HintAtBase(absl::Status status, const Recipe& recipe) {
  std::optional<ErrorDetail> detail = DetailOf(status);
  if (!detail) return status;
  StrAppend(detail->hint, detail->hint.empty() ? "" : "; ", "the run's model.path is '", recipe.model.path,
            "': where it is elsewhere now, name it with --base");
  return UserError(static_cast<ExitCode>(ExitCodeOf(status)), *std::move(detail));
}

// A run that trains the model itself has all that it began with in its checkpoint, but for what is frozen,
// which CheckBase sees. Of a checkpoint only weights were taken; of a model's folder also the tokenizer, for
// which the user then answers with --base.
void DropInitThatIsGone(Recipe& recipe, bool base_given) {
  const std::optional<std::string>& from = recipe.model.init_from;
  if (recipe.adapter || !from || Exists(*from)) return;
  const bool checkpoint = StepOfName(std::filesystem::path(*from).filename().string()).has_value();
  if (checkpoint || base_given) recipe.model.init_from.reset();
}

// Where the checkpoint has not all of the model, the rest must be what it was trained with.
absl::Status CheckBase(const CheckpointWeights& weights, const std::string& file, const Recipe& recipe,
                       const ModelPlan& plan, const ModelConfig& config) {
  const Manifest& manifest = weights.manifest();
  const std::vector<ParameterShape> parameters = ModelParameters(config);
  const bool whole = std::all_of(parameters.begin(), parameters.end(),
                                 [&](const ParameterShape& p) { return manifest.values.contains(p.name); });
  if (whole || manifest.model.empty()) return absl::OkStatus();
  FTUNE_ASSIGN_OR_RETURN(const std::vector<SharedInput> inputs, ModelInputs(recipe, plan));
  const std::string model = FingerprintOfModel(inputs);
  if (model == manifest.model) return absl::OkStatus();
  return DataError({.file = file,
                    .key = "model",
                    .message = StrCat("the checkpoint is for another base than ", plan.model_path),
                    .found = model,
                    .expected = manifest.model,
                    .hint = "name the folder of the very files that the run began with, with --base"});
}

}  // namespace

absl::StatusOr<CheckpointModel> OpenCheckpointModel(const CheckpointEntry& checkpoint,
                                                    const CheckpointModelOptions& options,
                                                    const HubReporter& reporter) {
  FTUNE_ASSIGN_OR_RETURN(const auto weights, CheckpointWeights::Open(checkpoint.folder));
  const std::string file = (checkpoint.folder / kManifestName).string();
  if (weights->tensors().empty()) {
    return DataError({.file = file, .key = "values", .message = "the checkpoint has no trained parameter"});
  }
  FTUNE_ASSIGN_OR_RETURN(LoadedRecipe loaded, LoadRunRecipe(weights->manifest().recipe, file));
  if (!options.base.empty()) {
    loaded.recipe.model.path = options.base;
    loaded.recipe.model.revision.reset();
  }
  DropInitThatIsGone(loaded.recipe, !options.base.empty());
  absl::StatusOr<ModelPlan> plan = ToModelPlan(loaded, reporter);
  if (!plan.ok()) return HintAtBase(plan.status(), loaded.recipe);
  absl::StatusOr<ModelFiles> files = OpenModel(plan->model_path);
  if (!files.ok()) return HintAtBase(files.status(), loaded.recipe);
  FTUNE_RETURN_IF_ERROR(CheckBase(*weights, file, loaded.recipe, *plan, files->config));
  RunData data;
  FTUNE_RETURN_IF_ERROR(LoadTokenizerOf(loaded, *plan, *files, data).status());

  LoadModelOptions load = plan->options;
  load.max_length = 0;
  // What was trained as the checkpoint has it: with a master's precision, where there is one.
  load.trainable_dtype = weights->tensors().front().dtype;
  load.trained.push_back(weights);
  load.streamed = true;
  load.for_merging = options.merging;
  TakeAddedTokens(data, load);
  if (load.tokenizer_folder.empty()) load.tokenizer_folder = files->tokenizer_folder;
  CheckpointModel model;
  model.session.backend = MakeCpuBackend(CpuCores());
  FTUNE_ASSIGN_OR_RETURN(model.session.loaded,
                         LoadModel(*model.session.backend, Stream(), plan->model_path, load));
  FTUNE_RETURN_IF_ERROR(CheckHasValues(weights->manifest(), TrainedNames(model.session.loaded, load), file));
  model.session.loaded.files.chat_template = data.own_template;
  NameBase(loaded.recipe, *plan, model.session.loaded.files);
  model.session.tokenizer = std::move(data.tokenizer);
  model.tokenizer_folder = std::move(data.tokenizer_folder);
  model.recipe = std::move(loaded.recipe);
  model.base_checkpoint = std::move(plan->base_checkpoint);
  return model;
}

}  // namespace ftune
