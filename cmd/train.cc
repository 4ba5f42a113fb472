// ftune train RECIPE: fine-tunes a model, with the ranks that the recipe names or a launcher has started.

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/environment.h"
#include "base/error.h"
#include "base/strings.h"
#include "cmd/command.h"
#include "cmd/lr_range_test.h"
#include "cmd/report/hub_progress.h"
#include "cmd/run_options.h"
#include "cmd/train/last_words.h"
#include "cmd/train/rank_report.h"
#include "cmd/train/rank_run.h"
#include "cmd/train/supervised_run.h"
#include "cmd/train/train_data.h"
#include "cmd/train/train_options.h"

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

absl::StatusOr<CommandResult> RunStarted(const TrainOptions& options, const Invocation& invocation,
                                         const RankStart& start) {
  FTUNE_ASSIGN_OR_RETURN(LoadedRecipe loaded,
                         OpenRecipe(options.recipe, options.overrides, start.environment));
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
  const int ranks = ToMeshShape(loaded.recipe.parallel).ranks();
  if (options.lr_range_test && ranks > 1) {
    return UsageError({.file = "command line",
                       .key = "--lr-range-test",
                       .found = StrCat(ranks, " ranks"),
                       .expected = "one: the rate that suits the batch is the same on any number of ranks",
                       .hint = "add parallel.data=1 parallel.tensor=1 launch.ranks_per_host=1"});
  }
  if (!start.environment && ranks > 1) {
    return SupervisedRun(options, invocation, std::move(loaded)).Run();
  }
  return RankRun(options, invocation, start, std::move(loaded)).Run();
}

absl::StatusOr<CommandResult> Run(const TrainOptions& options, Invocation& invocation) {
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

}  // namespace

void AddTrain(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Fine-tunes a model as a recipe says");
  command->add_option("RECIPE", options->recipe, "A recipe (YAML)")->required();
  command->add_option("OVERRIDES", options->overrides, "key.sub=value, instead of what the recipe says");
  command->add_flag("--force", options->force, "Replace the run that output_dir has");
  command->add_flag("--print", options->print, "Print the resolved recipe and do nothing");
  command->add_flag("--dry-run", options->dry_run, "Read the data and plan the steps, but do not train");
  command->add_flag(
      "--lr-range-test", options->lr_range_test,
      "Train a little at rising learning rates, plot the loss and suggest one; keep no weights");
  // What `ftune verify` tells its ranks.
  auto verify = std::make_shared<VerifyTask>();
  command->add_option("--verify-reference", verify->reference)->group("");
  command->add_option("--verify-steps", verify->steps)->group("");
  command->callback([options, verify, &invocation] {
    if (!verify->reference.empty()) options->verify = *verify;
    invocation.run = [options, &invocation] { return Run(*options, invocation); };
  });
}

}  // namespace ftune
