// ftune plan RECIPE: the memory that each rank will need. With --schedule FILE it draws the pipeline's
// schedule, with modelled costs.

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "cmd/command.h"
#include "cmd/plan/draw_schedule.h"
#include "cmd/plan/search_report.h"
#include "cmd/plan/show_plan.h"
#include "cmd/plan/target.h"
#include "cmd/report/hub_progress.h"
#include "cmd/run_options.h"

namespace ftune {
namespace {

struct Options {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string on;  // as ParseOn has it; empty: this host
  ShowOptions show;
  std::string schedule;  // the file to write
  bool search = false;
  int max_hosts = 0;  // 0: as many as --on has
  std::string write;  // the file for the recipe that a search chose
};

absl::Status NeedsTarget() {
  return UsageError({.file = "command line",
                     .key = kSearchFlag,
                     .message = "plans are compared by their time, and of this host none is known",
                     .hint = StrCat("run `ftune bench`, or say where with ", kOnFlag)});
}

absl::StatusOr<CommandResult> Run(const Options& options, const Invocation& invocation) {
  std::optional<Target> target;
  if (!options.on.empty()) {
    FTUNE_ASSIGN_OR_RETURN(target, ParseOn(options.on));
  }
  FTUNE_ASSIGN_OR_RETURN(LoadedRecipe loaded, LoadRecipe(options.recipe, options.overrides));
  FTUNE_RETURN_IF_ERROR(target ? ResolveFor(loaded, *target) : ResolveHere(loaded, std::nullopt));
  if (!target) {
    FTUNE_ASSIGN_OR_RETURN(target, MeasuredTarget(loaded.recipe));
  }
  FTUNE_ASSIGN_OR_RETURN(const ModelPlan model,
                         ToModelPlan(loaded, HubProgress(invocation.verbosity()), ModelParts::kConfig));
  if (options.search && !target) return NeedsTarget();
  absl::StatusOr<CommandResult> result =
      options.search             ? SearchAndReport(loaded, model, *target, options.max_hosts, options.write)
      : options.schedule.empty() ? ShowPlan(loaded, model, target, options.show, invocation)
                                 : DrawSchedule(options.schedule, loaded, model);
  if (!result.ok()) return loaded.Placed(result.status());
  return result;
}

}  // namespace

void AddPlan(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "plan", "Says what memory each rank will need; draws what the ranks of a pipeline do in a step");
  command->add_option("RECIPE", options->recipe, "A recipe (YAML)")->required();
  command->add_option("OVERRIDES", options->overrides, "key.sub=value, instead of what the recipe says");
  CLI::Option* const explain = command->add_flag(kExplainFlag, options->show.explain,
                                                 "Lists the largest tensors that are alive at the peak");
  CLI::Option* const trace =
      command->add_option(kTraceFlag, options->show.trace,
                          "Where to write what a rank of each role does in a step, and its memory "
                          "meanwhile, for Chrome's trace viewer or Perfetto");
  CLI::Option* const html = command->add_option(
      kHtmlFlag, options->show.html, "Where to write a page with the memory of each role over a step");
  CLI::Option* const schedule = command->add_option(
      kScheduleFlag, options->schedule,
      "Where to write the schedule: *.svg (a picture), *.csv (to be edited and trained with) or "
      "*.txt");
  command->add_option(kOnFlag, options->on,
                      "Where it would run, HOSTSxDEVICESxNAME: 4x8xA100-80G, or 1x2xmine.yaml with an entry "
                      "as `ftune bench` writes one; this host without");
  CLI::Option* search =
      command->add_flag(kSearchFlag, options->search,
                        "Tries meshes, ZeRO stages, microbatches, activation checkpointing, schedules and "
                        "offload that keep the global batch, and shows the fastest that fit");
  command->add_option("--max-hosts", options->max_hosts, "Search from one host to so many")
      ->needs(search)
      ->check(CLI::Range(1, 65536));
  command->add_option(kWriteFlag, options->write, "Where to write the recipe that the search finds best")
      ->needs(search);
  schedule->excludes(explain)->excludes(trace)->excludes(html)->excludes(search);
  search->excludes(explain)->excludes(trace)->excludes(html);
  command->callback([options, &invocation] {
    invocation.run = [options, &invocation] { return Run(*options, invocation); };
  });
}

}  // namespace ftune
