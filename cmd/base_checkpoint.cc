#include "cmd/base_checkpoint.h"

#include <set>
#include <system_error>

#include "base/error.h"
#include "base/folder.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "cmd/checkpoint/find_checkpoint.h"
#include "cmd/recipe/resume.h"
#include "cmd/run_folder.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/checkpoint_weights.h"
#include "engine/format/peft.h"
#include "engine/format/trained_values.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;

absl::Status IsGone(const fs::path& checkpoint, const std::string& named_in) {
  return DataError({.file = named_in,
                    .message = "the checkpoint with the weights that the adapter was trained on is not there",
                    .found = StrCat("'", checkpoint.string(), "', which does not exist here"),
                    .expected = "the folder of that checkpoint",
                    .hint = "bring it back: without it the adapter's base is not known"});
}

std::optional<fs::path> BaseNamedBy(const PeftConfig& config) {
  return NamesCheckpoint(config.base_model) ? std::optional<fs::path>(config.base_model) : std::nullopt;
}

}  // namespace

bool NamesCheckpoint(const fs::path& base) {
  if (base.empty()) return false;
  return IsCheckpoint(base) || (!Exists(base) && StepOfName(base.filename().string()));
}

absl::StatusOr<std::optional<fs::path>> BaseCheckpointOf(const Recipe& recipe) {
  std::optional<fs::path> none;
  std::set<std::string> seen;
  std::optional<std::string> from = recipe.adapter ? recipe.model.init_from : std::nullopt;
  while (from) {
    const fs::path folder = *from;
    if (!seen.insert(*from).second) {
      return DataError({.file = *from,
                        .key = "model.init_from",
                        .message = "the runs that an adapter goes on from lead back to themselves"});
    }
    if (!IsCheckpoint(folder)) {
      for (const fs::path& adapter : {folder, RunPaths(folder).adapter()}) {
        if (!Exists(adapter / "adapter_config.json")) continue;
        FTUNE_ASSIGN_OR_RETURN(const PeftConfig config, ReadPeftConfig(adapter));
        return BaseNamedBy(config);
      }
      if (!Exists(folder) && StepOfName(folder.filename().string())) return IsGone(folder, "model.init_from");
      return none;
    }
    FTUNE_ASSIGN_OR_RETURN(const auto weights, CheckpointWeights::Open(folder));
    if (!HasAdapterValues(*weights)) return std::optional(folder);
    const std::string file = (folder / kManifestName).string();
    if (const std::string& text = weights->manifest().adapter; !text.empty()) {
      FTUNE_ASSIGN_OR_RETURN(const PeftConfig config, ParsePeftConfig(text, file));
      return BaseNamedBy(config);
    }
    FTUNE_ASSIGN_OR_RETURN(const LoadedRecipe made, LoadRunRecipe(weights->manifest().recipe, file));
    from = made.recipe.adapter ? made.recipe.model.init_from : std::nullopt;
  }
  return none;
}

std::optional<fs::path> BaseCheckpointOfAdapter(const fs::path& adapter) {
  const RunPaths run(adapter / "..");
  std::error_code error;
  if (!Exists(run.recipe()) || !fs::equivalent(run.adapter(), adapter, error)) return std::nullopt;
  const absl::StatusOr<MappedFile> text = MappedFile::Open(run.recipe());
  if (!text.ok()) return std::nullopt;
  const absl::StatusOr<LoadedRecipe> made = LoadRunRecipe(text->text(), run.recipe().string());
  if (!made.ok()) return std::nullopt;
  absl::StatusOr<std::optional<fs::path>> base = BaseCheckpointOf(made->recipe);
  return base.ok() ? *std::move(base) : std::nullopt;
}

absl::StatusOr<CheckpointBase> OpenCheckpointBase(const fs::path& checkpoint, const std::string& named_in) {
  if (!Exists(checkpoint)) return IsGone(checkpoint, named_in);
  // Its values are read without a look at their hashes later.
  FTUNE_RETURN_IF_ERROR(FindCheckpoint(checkpoint.string(), std::nullopt, nullptr).status());
  FTUNE_ASSIGN_OR_RETURN(const auto weights, CheckpointWeights::Open(checkpoint));
  const std::string file = (checkpoint / kManifestName).string();
  FTUNE_ASSIGN_OR_RETURN(const LoadedRecipe made, LoadRunRecipe(weights->manifest().recipe, file));
  return CheckpointBase{made.recipe.model.path, made.recipe.model.revision, {weights}};
}

}  // namespace ftune
