#include "cmd/train/submit_slurm.h"

#include <sys/wait.h>

#include <cctype>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/run_program.h"
#include "base/strings.h"
#include "cmd/recipe/availability.h"
#include "cmd/recipe/load.h"
#include "cmd/recipe/resolve.h"
#include "cmd/run_folder.h"
#include "parallel/launch/slurm/batch_script.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;

constexpr char kOutput[] = "slurm-%j.out";
constexpr char kFlag[] = "--slurm";

fs::path FullPath(const fs::path& path) { return fs::absolute(path).lexically_normal(); }

// The recipe, with sizes as the job's nodes will have them.
absl::StatusOr<LoadedRecipe> LoadForJob(const TrainOptions& options) {
  if (!fs::is_regular_file(options.recipe) && Exists(options.recipe)) {
    return UsageError({.file = "command line",
                       .key = options.recipe,
                       .message = "a job reads the recipe each time it starts",
                       .expected = "a file"});
  }
  FTUNE_ASSIGN_OR_RETURN(LoadedRecipe loaded, LoadRecipe(options.recipe, options.overrides));
  FTUNE_RETURN_IF_ERROR(CheckAvailable(loaded));
  Auto<LaunchKind>& kind = loaded.recipe.launch.kind;
  if (kind && *kind != LaunchKind::kSlurm) {
    ErrorDetail error = loaded.At("launch.kind");
    error.message = "a Slurm job (--slurm) is none of this kind";
    error.expected = "auto or slurm";
    return UsageError(std::move(error));
  }
  return loaded;
}

// Mesh and batch must fit the nodes that are asked for.
absl::StatusOr<Recipe> ResolvedForJob(LoadedRecipe loaded) {
  const auto nodes = static_cast<size_t>(loaded.recipe.launch.slurm.nodes);
  loaded.recipe.launch.kind = LaunchKind::kSlurm;
  FTUNE_RETURN_IF_ERROR(Resolve(loaded, {.cores = 1, .slots = std::vector<int>(nodes), .slurm = true}));
  return std::move(loaded.recipe);
}

std::vector<std::string> CommandOf(const TrainOptions& options, Verbosity verbosity) {
  std::vector<std::string> words = {fs::read_symlink("/proc/self/exe").string(), "train", options.recipe};
  words.insert(words.end(), options.overrides.begin(), options.overrides.end());
  words.push_back("--resume");
  if (verbosity == Verbosity::kQuiet) words.push_back("--quiet");
  if (verbosity == Verbosity::kVerbose) words.push_back("--verbose");
  return words;
}

BatchJob JobOf(const Recipe& given, const Recipe& resolved, const fs::path& run,
               std::vector<std::string> command) {
  const SlurmSection& slurm = given.launch.slurm;
  return {.name = run.filename().string(),
          .folder = run.string(),
          .output = kOutput,
          .working_folder = fs::current_path().string(),
          .partition = slurm.partition,
          .account = slurm.account,
          .time = slurm.time,
          .constraint = slurm.constraint,
          .nodes = slurm.nodes,
          .tasks_per_node = *resolved.launch.ranks_per_host,
          .cpus_per_task = given.launch.threads,
          .gpus_per_node = slurm.gpus_per_node,
          .survives_nodes = given.launch.min_hosts.has_value(),
          .extra = slurm.extra,
          .command = std::move(command)};
}

// What this process knows of a job that it runs in is no business of the new one, which would inherit it.
// Where Slurm's configuration is stays.
bool IsOfOwnJob(std::string_view name) {
  return (name.starts_with("SLURM_") || name.starts_with("SLURMD_")) && name != "SLURM_CONF";
}

std::string Trimmed(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.pop_back();
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text;
}

// The job's number.
absl::StatusOr<std::string> Submit(const fs::path& script) {
  const absl::StatusOr<ProgramEnd> end = RunProgram({"sbatch", "--parsable", script.string()}, IsOfOwnJob);
  if (absl::IsNotFound(end.status())) {
    return UsageError(
        {.file = "command line",
         .key = kFlag,
         .message = "there is no sbatch in PATH, which submits Slurm jobs",
         .hint = StrCat("submit ", script.string(), " where there is one: on a login node of the cluster")});
  }
  if (!end.ok()) return end.status();
  const std::string said = Trimmed(end->output);
  if (!WIFEXITED(end->wait_status) || WEXITSTATUS(end->wait_status) != 0 || said.empty()) {
    const std::string why = Trimmed(end->errors);
    return UsageError(
        {.file = script.string(),
         .key = "sbatch",
         .message = StrCat("the job was not submitted: ", why.empty() ? "sbatch does not say why" : why),
         .hint = "look at launch.slurm"});
  }
  return said.substr(0, said.find(';'));  // the cluster's name may follow
}

}  // namespace

absl::StatusOr<CommandResult> SubmitToSlurm(const TrainOptions& options, Verbosity verbosity) {
  FTUNE_ASSIGN_OR_RETURN(const LoadedRecipe loaded, LoadForJob(options));
  FTUNE_ASSIGN_OR_RETURN(const Recipe resolved, ResolvedForJob(loaded));
  const RunPaths paths(FullPath(*resolved.output_dir));
  const absl::StatusOr<std::string> script =
      BatchScript(JobOf(loaded.recipe, resolved, paths.folder, CommandOf(options, verbosity)));
  if (!script.ok()) return loaded.Placed(script.status());
  if (options.print) return CommandResult{.json = {{"script", *script}, {"exit", 0}}, .text = *script};

  {
    // As a run that begins here would find it, or goes on.
    const bool goes_on = options.resume_if_begun && HasRun(paths);
    FTUNE_RETURN_IF_ERROR(
        (goes_on ? RunFolder::Continue(paths.folder) : RunFolder::Create(paths.folder, /*force=*/false))
            .status());
  }
  FTUNE_RETURN_IF_ERROR(WriteFileAtomic(paths.slurm_script(), *script));
  FTUNE_ASSIGN_OR_RETURN(const std::string job, Submit(paths.slurm_script()));
  const std::string output = (paths.folder / StrCat("slurm-", job, ".out")).string();
  return CommandResult{.json = {{"run", paths.folder.string()},
                                {"script", paths.slurm_script().string()},
                                {"job", job},
                                {"output", output},
                                {"exit", 0}},
                       .text = StrCat("job ", job, " is submitted: ", paths.slurm_script().string(),
                                      "; it writes to ", output, "\n")};
}

}  // namespace ftune
