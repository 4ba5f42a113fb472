#include "cmd/train/start_training.h"

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/strings.h"
#include "cmd/launch_hosts.h"
#include "cmd/lr_range_test.h"
#include "cmd/report/hub_progress.h"
#include "cmd/run_options.h"
#include "cmd/train/last_words.h"
#include "cmd/train/rank_report.h"
#include "cmd/train/rank_run.h"
#include "cmd/train/resume_run.h"
#include "cmd/train/submit_slurm.h"
#include "cmd/train/supervised_run.h"
#include "cmd/train/train_data.h"
#include "parallel/launch/join_world.h"
#include "parallel/launch/slurm/step_rank.h"
#include "parallel/launch/slurm/step_tasks.h"

namespace ftune {
namespace {

absl::StatusOr<RankStart> ReadRankStart() {
  const EnvironmentReader environment = ProcessEnvironment();
  RankStart start;
  FTUNE_ASSIGN_OR_RETURN(start.environment, ReadRankEnvironment(environment));
  const std::optional<std::string> supervised = environment(kSupervisedVariable);
  start.supervised = start.environment && supervised;
  start.style = !start.supervised                      ? StyleOf(stderr)
                : *supervised == kSupervisedOnTerminal ? ProgressStyle::kRelayed
                                                       : ProgressStyle::kPlain;
  if (start.environment) return start;
  FTUNE_ASSIGN_OR_RETURN(start.slurm, ReadSlurm(environment, EnclosingStep()));
  if (start.slurm.kind == SlurmScope::Kind::kStep && start.slurm.tasks() > 1) {
    FTUNE_ASSIGN_OR_RETURN(start.environment, RankOfStep(start.slurm, environment));
  }
  return start;
}

absl::StatusOr<CommandResult> DryRun(LoadedRecipe& loaded, const Invocation& invocation) {
  Progress progress(stderr, invocation.verbosity());
  const HubReporter hub = HubProgress(invocation.verbosity());
  FTUNE_ASSIGN_OR_RETURN(const ModelPlan model_plan, ToModelPlan(loaded, hub));
  TrainData data(loaded, progress, /*data_rank=*/0);
  FTUNE_RETURN_IF_ERROR(data.Prepare(model_plan, hub));
  CommandResult result{.json = {{"run", *loaded.recipe.output_dir}, {"steps", data.steps().total}}};
  result.json.update(data.Facts());
  result.json["exit"] = 0;
  return result;
}

// Flags that say opposite things.
absl::Status CheckFlags(const TrainOptions& options) {
  const auto with_resume = [](const char* flag, const char* message) {
    return UsageError(
        {.file = "command line", .key = flag, .message = message, .hint = "leave one of the two out"});
  };
  if (options.slurm) {
    const char* const message = "a job that is submitted (--slurm) goes on with its run each time it starts";
    if (options.force) return with_resume("--force", message);
    if (options.lr_range_test) return with_resume("--lr-range-test", message);
    if (options.dry_run)
      return with_resume("--dry-run", "--slurm submits a job; --slurm --print only shows it");
  }
  if (!options.resume_if_begun) return absl::OkStatus();
  if (options.force) return with_resume("--force", "it replaces the run that --resume goes on with");
  if (options.lr_range_test)
    return with_resume("--lr-range-test", "there is no run to go on with (--resume)");
  return absl::OkStatus();
}

// Nodes to start ranks on come from a job.
absl::Status CheckNodes(const LoadedRecipe& loaded, const SlurmScope& slurm) {
  const bool has_nodes = slurm.kind == SlurmScope::Kind::kAllocation;
  if (loaded.recipe.launch.kind != LaunchKind::kSlurm || has_nodes) return absl::OkStatus();
  ErrorDetail error = loaded.At("launch.kind");
  error.found = "slurm, outside of a Slurm job";
  error.expected = "a job's script, the shell of salloc, or a step of several tasks";
  error.hint = "submit one with `ftune train --slurm`, or remove launch.kind";
  return UsageError(std::move(error));
}

// Other ranks that a launcher has started do not wait for one that cannot start.
absl::StatusOr<OpenedRecipe> OpenOnRank(const TrainOptions& options, const RankStart& start) {
  absl::StatusOr<OpenedRecipe> opened = OpenForTraining(options, start.environment);
  const bool trains = !options.print && !options.dry_run;
  if (opened.ok() || !start.environment || start.supervised || !trains) return opened;
  TellOthers(*start.environment, opened.status(), [] {
    std::fprintf(stderr, "this rank cannot start; it stays up to %s to tell the others why\n",
                 absl::FormatDuration(kPatience).c_str());
  });
  return opened;
}

absl::StatusOr<CommandResult> RunStarted(TrainOptions options, const Invocation& invocation,
                                         const RankStart& start) {
  FTUNE_RETURN_IF_ERROR(CheckFlags(options));
  if (options.slurm) return SubmitToSlurm(options, invocation.verbosity());
  options.least_attempt = 1 + start.slurm.restarts;
  FTUNE_ASSIGN_OR_RETURN(OpenedRecipe opened, OpenOnRank(options, start));
  LoadedRecipe& loaded = opened.loaded;
  if (opened.goes_on) options.resume = ResumePoint();
  if (options.lr_range_test) PrepareRangeTest(loaded.recipe);
  const bool speaks = !start.environment || start.environment->rank == 0;
  if (options.print) {
    if (speaks) std::printf("%s", ToYaml(loaded.recipe).c_str());
    return CommandResult{};
  }
  if (options.dry_run) {
    if (!speaks) return CommandResult{};
    absl::StatusOr<CommandResult> result = DryRun(loaded, invocation);
    return result.ok() ? result : loaded.Placed(std::move(result).status());
  }
  if (!start.environment) FTUNE_RETURN_IF_ERROR(CheckNodes(loaded, start.slurm));
  const int ranks = ToMeshShape(loaded.recipe.parallel).ranks();
  if (options.lr_range_test && ranks > 1) {
    return UsageError({.file = "command line",
                       .key = "--lr-range-test",
                       .found = StrCat(ranks, " ranks"),
                       .expected = "one: the rate that suits the batch is the same on any number of ranks",
                       .hint = "add parallel.data=1 parallel.tensor=1 launch.ranks_per_host=1"});
  }
  if (!start.environment) {
    FTUNE_ASSIGN_OR_RETURN(std::vector<HostSlots> hosts, HostsOf(loaded));
    if (ranks > 1 || !hosts.empty()) {
      return SupervisedRun(options, invocation, std::move(loaded), std::move(hosts)).Run();
    }
  }
  return RankRun(options, invocation, start, std::move(loaded)).Run();
}

}  // namespace

absl::StatusOr<CommandResult> StartTraining(const TrainOptions& options, Invocation& invocation) {
  // A run does not end because somebody has left the pager that shows it.
  std::signal(SIGPIPE, SIG_IGN);
  // Nor does one that is asked to save before it can.
  std::signal(SIGUSR1, SIG_IGN);
  FTUNE_ASSIGN_OR_RETURN(const RankStart start, ReadRankStart());
  ReportWhatEndsProcess(start.Name(), start.supervised);
  if (!start.supervised) {
    absl::StatusOr<CommandResult> result =
        RunGuarded([&] { return RunStarted(options, invocation, start); }, start.Name());
    // Of several ranks the first has the result; of a comparison each has what it found.
    const bool silent = start.environment && start.environment->rank != 0 && !options.verify;
    if (result.ok() && silent) invocation.json = false;
    return result;
  }
  // Who started this rank shows what became of it.
  const absl::StatusOr<CommandResult> result =
      RunGuarded([&] { return RunStarted(options, invocation, start); }, start.Name());
  SendReport(result);
  invocation.json = false;
  return CommandResult{.exit = result.ok() ? result->exit : ExitCodeOf(result.status())};
}

void AddRankOrders(CLI::App& command, RankOrders& orders) {
  command.add_option("--derived", orders.derived)->group("")->allow_extra_args(false);
  command.add_option("--attempt", orders.attempt)->group("");
  command.add_option("--resume-from", orders.resume)->group("");
  command.add_flag("--recipe-on-input", orders.recipe_on_input)->group("");
  command.add_flag("--recipe-of-first", orders.recipe_of_first)->group("");
  command.add_option("--run-folder", orders.folder)->group("");
}

}  // namespace ftune
