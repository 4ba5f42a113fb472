#include "cmd/train/resume_run.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/hub/repo.h"
#include "base/strings.h"
#include "cmd/base_checkpoint.h"
#include "cmd/recipe/errors.h"
#include "cmd/recipe/key_table.h"
#include "cmd/recipe/paths.h"
#include "cmd/recipe/resume.h"
#include "cmd/recipe/source.h"
#include "cmd/run_options.h"
#include "cmd/standard_input.h"
#include "cmd/train/run_inputs.h"
#include "engine/checkpoint/choose_checkpoint.h"
#include "engine/format/peft.h"
#include "parallel/comm/gather_text.h"
#include "parallel/launch/core_shares.h"
#include "parallel/launch/join_world.h"

namespace ftune {
namespace {

constexpr int64_t kLongToRead = int64_t{1} << 30;  // bytes
constexpr char kInitFromKey[] = "model.init_from";
constexpr std::string_view kHasInit = "+";  // before the adapter, between ranks
constexpr int kMostThreads = 16;            // that read; a disk gains nothing from more

absl::StatusOr<std::string> RecipeTextOf(const RunPaths& paths) {
  FTUNE_RETURN_IF_ERROR(CheckHasRun(paths));
  const absl::StatusOr<std::string> text = ReadRecipeText(paths.recipe().string());
  if (!text.ok()) return RecipeStatus(RecipeErrorsOf(text.status()));
  return text;
}

// A run's own folder is where it is, whatever its name was when it began.
absl::Status StayInFolder(LoadedRecipe& loaded, const std::string& folder) {
  if (loaded.GivenOnCommandLine("output_dir")) {
    ErrorDetail error = loaded.At("output_dir");
    error.message = "a run goes on in its own folder";
    error.found = *loaded.recipe.output_dir;
    error.expected = folder;
    error.hint = "leave it, or start another run from this one's weights, with model.init_from";
    return UsageError(std::move(error));
  }
  loaded.recipe.output_dir = folder;
  loaded.given->output_dir = folder;
  return absl::OkStatus();
}

// What a launcher has derived was not given.
void ForgetDerived(LoadedRecipe& loaded, const std::vector<std::string>& derived) {
  for (const std::string& text : derived) {
    const RecipeKey* const key = RecipeKeys().Find(text.substr(0, text.find('=')));
    if (key == nullptr) continue;
    loaded.places.erase(key->name);
    std::vector<ErrorDetail> none;
    key->read(*key->write(Recipe()), {"", key->name, &none}, *loaded.given);
  }
}

// Whether the run has begun with the weights of the checkpoint `from`, of which nothing else is taken.
bool BeganWithCheckpoint(const std::vector<SharedInput>& inputs, const std::string& from) {
  const std::string manifest = StrCat(from, "/", std::string(kManifestName));
  return std::any_of(inputs.begin(), inputs.end(), [&](const SharedInput& input) {
    return input.key == kInitFromKey && input.place == manifest;
  });
}

// Whether a checkpoint has all that the run took of the checkpoint `from`: not what is frozen.
absl::StatusOr<bool> HasAllOfInit(const Recipe& recipe, const Manifest& manifest, const std::string& from,
                                  const std::filesystem::path& file) {
  if (!recipe.adapter) return recipe.train.freeze.empty();
  if (manifest.adapter.empty()) return false;
  FTUNE_ASSIGN_OR_RETURN(const PeftConfig peft, ParsePeftConfig(manifest.adapter, file.string()));
  return !NamesCheckpoint(peft.base_model) || AbsolutePath(peft.base_model) != from;
}

// On a host that does not have the run, which rank 0 goes on with and reads for all.
absl::StatusOr<OpenedRecipe> OpenAsFirstRank(const RankEnvironment& launched,
                                             const std::vector<std::string>& derived) {
  FTUNE_ASSIGN_OR_RETURN(const std::string text, RecipeOfFirstRank({.environment = launched}));
  OpenedRecipe opened = {.goes_on = true};
  FTUNE_ASSIGN_OR_RETURN(opened.loaded, LoadRecipeText(text, "the recipe of rank 0", derived));
  FTUNE_RETURN_IF_ERROR(ResolveHere(opened.loaded, launched));
  return opened;
}

absl::StatusOr<OpenedRecipe> Open(const TrainOptions& options, const std::vector<std::string>& overrides,
                                  const std::optional<RankEnvironment>& launched) {
  const std::vector<std::string>& derived = options.orders.derived;
  if (launched && options.orders.recipe_of_first) return OpenAsFirstRank(*launched, derived);
  const auto find_environment = [&](const LoadedRecipe& recipe) -> absl::StatusOr<Environment> {
    FTUNE_ASSIGN_OR_RETURN(Environment environment, EnvironmentHere(recipe, launched));
    if (!options.hosts) return environment;
    environment.slots.clear();
    for (const HostSlots& host : *options.hosts) environment.slots.push_back(host.slots);
    return environment;
  };
  const auto resolve = [&](LoadedRecipe& loaded) -> absl::Status {
    FTUNE_ASSIGN_OR_RETURN(const Environment environment, find_environment(loaded));
    return ResolveHere(loaded, launched, environment);
  };
  OpenedRecipe opened;
  const std::string& mirror = options.orders.folder;
  RunPaths paths(mirror.empty() ? options.run : mirror);
  if (options.run.empty()) {
    if (options.orders.recipe_on_input) {
      FTUNE_ASSIGN_OR_RETURN(opened.loaded, LoadRecipeText(ReadStandardInput(), options.recipe, overrides));
    } else {
      FTUNE_ASSIGN_OR_RETURN(opened.loaded, LoadRecipe(options.recipe, overrides));
    }
    if (mirror.empty()) {
      paths = RunPaths(opened.loaded.recipe.output_dir.value_or(DefaultOutput(opened.loaded.file)));
    }
    if (!options.resume_if_begun || !HasRun(paths)) {
      if (options.hosts) FTUNE_RETURN_IF_ERROR(FitToMesh(opened.loaded, find_environment));
      FTUNE_RETURN_IF_ERROR(resolve(opened.loaded));
      return opened;
    }
  }
  if (launched && launched->rank != 0 && !Exists(paths.folder)) return OpenAsFirstRank(*launched, derived);
  const std::string file = paths.recipe().string();
  FTUNE_ASSIGN_OR_RETURN(const std::string text, RecipeTextOf(paths));
  FTUNE_ASSIGN_OR_RETURN(const LoadedRecipe run, LoadRunRecipe(text, file));
  FTUNE_ASSIGN_OR_RETURN(const std::vector<SharedInput> inputs, ReadInputs(paths.inputs()));
  if (options.run.empty()) {
    FTUNE_RETURN_IF_ERROR(FollowRun(opened.loaded, run, find_environment));
  } else {
    FTUNE_ASSIGN_OR_RETURN(opened.loaded, TakeUpRecipe(text, file, overrides, find_environment));
    FTUNE_RETURN_IF_ERROR(StayInFolder(opened.loaded, options.run));
  }
  FTUNE_RETURN_IF_ERROR(resolve(opened.loaded));
  FTUNE_RETURN_IF_ERROR(CheckMayResume(opened.loaded, run.recipe, file, KeysByContent(inputs)));
  FTUNE_RETURN_IF_ERROR(CheckInputsAreThere(opened.loaded));
  opened.goes_on = true;
  return opened;
}

}  // namespace

absl::Status CheckOfRun(const CheckpointEntry& entry, const Manifest& manifest, const LoadedRecipe& loaded,
                        const std::string& data) {
  const std::string file = (entry.folder / kManifestName).string();
  const auto refuse = [&](const std::string& key, const std::string& found, const std::string& expected) {
    return DataError({.file = file,
                      .key = key,
                      .message = "this checkpoint is of another run",
                      .found = found,
                      .expected = expected,
                      .hint = "remove it, or name another one with --step"});
  };
  const auto seed = static_cast<uint64_t>(loaded.recipe.train.seed);
  if (manifest.seed != seed) return refuse("train.seed", StrCat(manifest.seed), StrCat(seed));
  // What was moved since is where the recipe says now; of the model CheckModelOf knows whether it is the
  // same.
  std::vector<std::string> by_content;
  if (!manifest.model.empty()) by_content = {"model.path", "model.revision", "model.init_from"};
  if (!manifest.data.empty() && !data.empty()) {
    if (manifest.data != data) return refuse("data", manifest.data, data);
    by_content.insert(by_content.end(), {"data.train", "data.eval", "data.chat_template"});
  }
  FTUNE_ASSIGN_OR_RETURN(const LoadedRecipe written, LoadRunRecipe(manifest.recipe, file));
  const std::vector<ErrorDetail> differences =
      RecipeErrorsOf(CheckMayResume(loaded, written.recipe, file, by_content));
  if (differences.empty()) return absl::OkStatus();
  const ErrorDetail& first = differences.front();
  return refuse(first.key, first.expected, first.found);
}

absl::StatusOr<OpenedRecipe> OpenForTraining(const TrainOptions& options,
                                             const std::optional<RankEnvironment>& launched) {
  std::vector<std::string> overrides = options.overrides;
  const std::vector<std::string>& derived = options.orders.derived;
  overrides.insert(overrides.end(), derived.begin(), derived.end());
  FTUNE_ASSIGN_OR_RETURN(OpenedRecipe opened, Open(options, overrides, launched));
  ForgetDerived(opened.loaded, derived);
  return opened;
}

absl::StatusOr<TakenRun> TakeRun(const LoadedRecipe& loaded, const TrainOptions& options,
                                 Progress& progress) {
  FTUNE_ASSIGN_OR_RETURN(RunFolder folder,
                         RunFolder::Continue(*loaded.recipe.output_dir, options.least_attempt));
  FTUNE_ASSIGN_OR_RETURN(ResumePoint point, ChoosePoint(folder, loaded, options.step, progress));
  return TakenRun{std::move(folder), std::move(point)};
}

absl::StatusOr<ResumePoint> ChoosePoint(RunFolder& folder, const LoadedRecipe& loaded,
                                        std::optional<int64_t> step, Progress& progress) {
  const RunPaths& paths = folder.paths();
  FTUNE_RETURN_IF_ERROR(folder.RemoveLeftOvers());
  const CheckOptions options = {.threads = std::min(kMostThreads, static_cast<int>(AllowedCores().size())),
                                .on_progress = [&](int64_t done, int64_t total) {
                                  if (total < kLongToRead) return;
                                  progress.Passing(absl::StrFormat("checking the checkpoint: %s of %s",
                                                                   HumanBytes(done), HumanBytes(total)));
                                }};
  FTUNE_ASSIGN_OR_RETURN(const CheckpointChoice choice, ChooseCheckpoint(paths.checkpoints(), step, options));
  for (const DamagedCheckpoint& damaged : choice.damaged) {
    progress.Say(StrCat("warning: the checkpoint of step ", damaged.entry.step,
                        " is damaged and passed over: ", std::string(damaged.why.message())));
  }
  ResumePoint point;
  if (choice.chosen) {
    FTUNE_ASSIGN_OR_RETURN(const std::vector<SharedInput> inputs, ReadInputs(paths.inputs()));
    FTUNE_RETURN_IF_ERROR(CheckOfRun(*choice.chosen, choice.manifest, loaded, FingerprintOfData(inputs)));
    point = ResumePointOf(paths, choice.chosen->step);
    progress.Say(
        StrCat("attempt ", folder.attempt(), " goes on from step ", point.step, ": ", point.folder.string()));
  } else {
    progress.Say(StrCat("attempt ", folder.attempt(), " begins at step 0: the run has no checkpoint yet"));
  }
  FTUNE_RETURN_IF_ERROR(FindInitInCheckpoint(loaded, paths, point));
  return point;
}

ResumePoint ResumePointOf(const RunPaths& paths, int64_t step) {
  return {step, step > 0 ? paths.checkpoints() / CheckpointName(step) : std::filesystem::path()};
}

absl::Status FindInitInCheckpoint(const LoadedRecipe& loaded, const RunPaths& paths, ResumePoint& point) {
  const Recipe& recipe = loaded.recipe;
  if (!recipe.model.init_from) return absl::OkStatus();
  FTUNE_ASSIGN_OR_RETURN(const std::vector<SharedInput> inputs, ReadInputs(paths.inputs()));
  const std::string from = AbsolutePath(*recipe.model.init_from);
  // One that is said to be elsewhere now is looked at.
  const bool of_checkpoint = BeganWithCheckpoint(inputs, from);
  if (!point.folder.empty() && of_checkpoint) {
    FTUNE_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(point.folder));
    const std::filesystem::path file = point.folder / kManifestName;
    FTUNE_ASSIGN_OR_RETURN(const bool has_all, HasAllOfInit(recipe, manifest, from, file));
    if (has_all) point.init = InitInCheckpoint{file, manifest.adapter};
  }
  const bool gone =
      !Exists(*recipe.model.init_from) && !ParseHubPath(*recipe.model.init_from, RepoKind::kModel);
  if (point.init || !gone) return absl::OkStatus();
  return InputIsGone(loaded, kInitFromKey, from,
                     point.folder.empty() ? "the run has no checkpoint yet, and begins with that"
                     : of_checkpoint      ? "what the run does not train is in no checkpoint of it, but there"
                                          : "the run's tokenizer and configuration are from there");
}

absl::Status ShareResumePoint(Communicator& world, const RunPaths& paths, std::optional<ResumePoint>& point) {
  constexpr int64_t kNone = -1;
  const int64_t own = world.rank() == 0 && point ? point->step : kNone;
  FTUNE_ASSIGN_OR_RETURN(const int64_t step, world.AllReduce(own, ReduceOp::kMax));
  if (step == kNone) {
    point.reset();
    return absl::OkStatus();
  }
  const std::optional<InitInCheckpoint> init = point ? point->init : std::nullopt;
  FTUNE_ASSIGN_OR_RETURN(const std::string text,
                         TextOfFirst(world, init ? StrCat(kHasInit, init->adapter) : std::string()));
  point = ResumePointOf(paths, step);
  if (!text.empty()) point->init = InitInCheckpoint{point->folder / kManifestName, text.substr(1)};
  return absl::OkStatus();
}

}  // namespace ftune
