// ftune verify RECIPE: trains a few steps on one rank and on other meshes, and compares them.

#include <CLI/CLI.hpp>
#include <csignal>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/scratch_folder.h"
#include "base/strings.h"
#include "cmd/command.h"
#include "cmd/recipe/key_table.h"
#include "cmd/report/hub_progress.h"
#include "cmd/run_folder.h"
#include "cmd/run_options.h"
#include "cmd/train/supervised_run.h"
#include "cmd/train/train_checks.h"

namespace ftune {
namespace {

struct Options {
  std::string recipe;
  std::vector<std::string> overrides;
  std::vector<std::string> meshes;
  int64_t steps = 3;
};

constexpr char kMeshFlag[] = "--mesh";
constexpr char kRun[] = "run";  // the folder of one, in that of all

// What makes one rank of any recipe. A mesh starts from it, too.
std::vector<std::string> OneRank() {
  return {"parallel.data=1",
          "parallel.tensor=1",
          "parallel.pipeline=1",
          "parallel.context=1",
          "parallel.zero=0",
          "parallel.reshard_after_forward=true",
          "parallel.sequence_parallel=false",
          "parallel.schedule=1f1b",
          "parallel.virtual_stages=1",
          "parallel.stages=auto",
          "parallel.shard_size=auto",
          "launch.kind=local",
          "launch.ranks_per_host=auto",
          "train.gradient_accumulation_steps=auto",
          "checkpoint.save_steps=auto",
          "train.eval_on_start=false"};
}

// At commas that are not within brackets.
std::vector<std::string> SplitMesh(const std::string& mesh) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : mesh) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// "tensor=2,zero=3" as overrides of a recipe.
absl::StatusOr<std::vector<std::string>> MeshOverrides(const std::string& mesh) {
  std::vector<std::string> overrides;
  std::set<std::string> keys;
  for (const std::string& part : SplitMesh(mesh)) {
    const size_t equals = part.find('=');
    const std::string key = StrCat("parallel.", part.substr(0, equals));
    if (equals == std::string::npos || RecipeKeys().Find(key) == nullptr) {
      return UsageError(
          {.file = "command line",
           .key = kMeshFlag,
           .found = StrCat("'", part, "'"),
           .expected = "K=V with K a key of the recipe's `parallel`, as in tensor=2,data=2,zero=3"});
    }
    if (!keys.insert(key).second) {
      return UsageError({.file = "command line",
                         .key = kMeshFlag,
                         .message = StrCat(part.substr(0, equals), " is there twice"),
                         .found = StrCat("'", mesh, "'"),
                         .hint = "another mesh is another --mesh"});
    }
    overrides.push_back(StrCat("parallel.", part));
  }
  return overrides;
}

class Verification {
 public:
  Verification(const Options& options, const Invocation& invocation)
      : options_(options), invocation_(invocation), progress_(stderr, invocation.verbosity()) {}

  absl::StatusOr<CommandResult> Run() {
    // As for `ftune train`; and its ranks are ended and its files removed in order.
    std::signal(SIGPIPE, SIG_IGN);
    // All that can be wrong with a mesh is found before anything runs.
    FTUNE_ASSIGN_OR_RETURN(const LoadedRecipe own, OpenRecipe(options_.recipe, options_.overrides));
    global_batch_ = *own.recipe.train.global_batch_size;
    FTUNE_ASSIGN_OR_RETURN(const LoadedRecipe unresolved, LoadRecipe(options_.recipe, options_.overrides));
    microbatches_ = unresolved.recipe.train.gradient_accumulation_steps;
    FTUNE_ASSIGN_OR_RETURN(const std::vector<std::string> one_rank, OverridesOf({}));
    FTUNE_ASSIGN_OR_RETURN(LoadedRecipe one, Open(one_rank));
    const absl::StatusOr<ModelPlan> model_plan = ToModelPlan(one, HubProgress(invocation_.verbosity()));
    if (!model_plan.ok()) return one.Placed(model_plan.status());
    FTUNE_RETURN_IF_ERROR(CheckNoPipes(one, "several runs", "write the rows to a file"));
    std::vector<std::vector<std::string>> meshes;
    for (const std::string& mesh : options_.meshes) {
      FTUNE_ASSIGN_OR_RETURN(const std::vector<std::string> keys, MeshOverrides(mesh));
      FTUNE_ASSIGN_OR_RETURN(std::vector<std::string> overrides, OverridesOf(keys));
      FTUNE_ASSIGN_OR_RETURN(const LoadedRecipe loaded, Open(overrides));
      const absl::Status splits = CheckModelSplits(loaded.recipe, *model_plan);
      if (!splits.ok()) return loaded.Placed(splits);
      SayMicrobatches(mesh, loaded.recipe);
      meshes.push_back(std::move(overrides));
    }

    FTUNE_ASSIGN_OR_RETURN(ScratchFolder scratch, ScratchFolder::Create());
    folder_ = scratch.path();
    absl::StatusOr<CommandResult> result = Compare(one_rank, meshes);
    // Of a rank that failed, the error names a log.
    if (ExitCodeOf(result.status()) == static_cast<int>(ExitCode::kRankFailed)) {
      scratch.KeepOnly(RunPaths(kRun).ranks());
    }
    return result;
  }

 private:
  // The overrides of one rank and of each mesh.
  absl::StatusOr<CommandResult> Compare(const std::vector<std::string>& one,
                                        const std::vector<std::vector<std::string>>& meshes) {
    progress_.Say(absl::StrFormat("steps on one rank: %d", options_.steps));
    FTUNE_ASSIGN_OR_RETURN(const CommandResult left, RunRanks(one, options_.steps));
    if (left.exit != 0) return left;  // by a signal
    CommandResult all{.json = {{"ok", true}, {"meshes", nlohmann::ordered_json::array()}}};
    for (size_t i = 0; i < meshes.size(); ++i) {
      FTUNE_ASSIGN_OR_RETURN(const CommandResult result, RunRanks(meshes[i], 0));
      if (result.exit != 0) return result;
      nlohmann::ordered_json found = {{"mesh", options_.meshes[i]}};
      found.update(result.json);
      Show(found);
      if (!found["ok"].get<bool>()) {
        all.json["ok"] = false;
        all.exit = 1;
      }
      all.json["meshes"].push_back(std::move(found));
    }
    all.json["exit"] = all.exit;
    return all;
  }

  // With the recipe's own batch and, where it names their number and the mesh's data ranks leave a whole
  // number of samples for each, its own microbatches.
  absl::StatusOr<std::vector<std::string>> OverridesOf(const std::vector<std::string>& mesh) const {
    std::vector<std::string> overrides = options_.overrides;
    const std::vector<std::string> one = OneRank();
    overrides.insert(overrides.end(), one.begin(), one.end());
    overrides.push_back(StrCat("train.global_batch_size=", global_batch_));
    overrides.insert(overrides.end(), mesh.begin(), mesh.end());
    if (!microbatches_) return overrides;
    std::vector<std::string> kept = overrides;
    kept.push_back("train.micro_batch_size=auto");
    FTUNE_ASSIGN_OR_RETURN(const LoadedRecipe loaded, Open(kept));
    const int64_t ranks = *loaded.recipe.parallel.data;
    if (global_batch_ / ranks % *microbatches_ != 0) return overrides;
    kept.push_back(StrCat("train.gradient_accumulation_steps=", *microbatches_));
    return kept;
  }

  void SayMicrobatches(const std::string& mesh, const Recipe& recipe) {
    const int64_t microbatches = *recipe.train.gradient_accumulation_steps;
    if (!microbatches_ || microbatches == *microbatches_) return;
    progress_.Say(
        absl::StrFormat("%s: %d microbatches a step; the recipe's %d do not divide what each of "
                        "%d data ranks has of a batch of %d",
                        mesh, microbatches, *microbatches_, *recipe.parallel.data, global_batch_));
  }

  absl::StatusOr<LoadedRecipe> Open(const std::vector<std::string>& overrides) const {
    return OpenRecipe(options_.recipe, overrides);
  }

  // As processes, as `ftune train` would start them; what the first of them reports.
  absl::StatusOr<CommandResult> RunRanks(std::vector<std::string> overrides, int64_t steps) const {
    overrides.push_back(StrCat("output_dir=", (folder_ / kRun).string()));
    FTUNE_ASSIGN_OR_RETURN(LoadedRecipe loaded, Open(overrides));
    const TrainOptions train = {.recipe = options_.recipe,
                                .overrides = std::move(overrides),
                                .force = true,
                                .verify = VerifyTask{.reference = folder_, .steps = steps}};
    Invocation quiet = invocation_;
    quiet.quiet = true;
    return SupervisedRun(train, quiet, std::move(loaded), /*hosts=*/{}).Run();
  }

  void Show(const nlohmann::ordered_json& found) const {
    if (invocation_.json) return;
    // An error in epsilons of f32 says how many roundings it may be.
    constexpr double kEpsilon = 0x1p-23;
    std::printf("%s: %s\n", found["mesh"].get<std::string>().c_str(),
                found["ok"].get<bool>() ? "agrees with one rank" : "DIFFERS from one rank");
    for (const char* kind : {"loss", "grad_norm", "gradient", "weights"}) {
      const nlohmann::ordered_json& measure = found[kind];
      // JSON has no infinity.
      const double error = measure["error"].is_null() ? std::numeric_limits<double>::infinity()
                                                      : measure["error"].get<double>();
      const double tolerance = measure["tolerance"];
      std::printf("  %-7s %s: off by %.1e (%.1f epsilons), at most %.0e is right\n",
                  error <= tolerance ? "" : "WRONG", measure["name"].get<std::string>().c_str(), error,
                  error / kEpsilon, tolerance);
    }
    std::fflush(stdout);
  }

  const Options& options_;
  const Invocation& invocation_;
  Progress progress_;
  int64_t global_batch_ = 0;             // the recipe's
  std::optional<int64_t> microbatches_;  // of a step, where the recipe names their number
  std::filesystem::path folder_;         // of all that is left of runs
};

}  // namespace

void AddVerify(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("verify", "Compares a few steps on other meshes with those of one rank");
  command->add_option("RECIPE", options->recipe, "A recipe (YAML)")->required();
  command->add_option("OVERRIDES", options->overrides, "key.sub=value, instead of what the recipe says");
  command
      ->add_option(kMeshFlag, options->meshes,
                   "A mesh, as tensor=2,data=2,zero=3: keys of the recipe's `parallel`; may be repeated")
      ->required()
      ->allow_extra_args(false);
  command->add_option("--steps", options->steps, "Steps to compare")
      ->check(CLI::Range(int64_t{1}, int64_t{1000000}))
      ->capture_default_str();
  command->callback([options, &invocation] {
    invocation.run = [options, &invocation] { return Verification(*options, invocation).Run(); };
  });
}

}  // namespace ftune
