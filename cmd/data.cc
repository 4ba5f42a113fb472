// ftune data RECIPE: prepares a recipe's data ahead.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/strings.h"
#include "cmd/command.h"
#include "cmd/report/hub_progress.h"
#include "cmd/run_data.h"
#include "cmd/run_options.h"

namespace ftune {
namespace {

struct Options {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string dropped;  // where the list of dropped rows goes; empty: nowhere
};

nlohmann::ordered_json StoreJson(const PreparedStore& store) {
  return {{"path", store.path.string()},
          {"bytes", store.bytes},
          {"shards", store.shards},
          {"reused_shards", store.reused_shards}};
}

nlohmann::ordered_json PartJson(const Dataset& dataset, const DataPlan& plan, const PreparedStore& store) {
  const DataPlan::Epoch& epoch = plan.epochs().front();
  nlohmann::ordered_json json = {{"samples", dataset.size()},
                                 {"tokens", dataset.tokens()},
                                 {"trained_tokens", dataset.trained_tokens()},
                                 {"packs", epoch.packs},
                                 {"fill", epoch.fill()},
                                 {"steps_per_epoch", epoch.steps},
                                 {"total_steps", plan.total_steps()},
                                 {"rows", dataset.report.rows},
                                 {"dropped", dataset.report.dropped},
                                 {"truncated", dataset.report.truncated_rows},
                                 {"split", dataset.report.split_rows}};
  if (!store.path.empty()) json.update(StoreJson(store));
  return json;
}

std::string DescribePart(const Dataset& dataset, const DataPlan& plan) {
  const DataPlan::Epoch& epoch = plan.epochs().front();
  return StrCat(DescribeDataset(dataset),
                absl::StrFormat("\n%d packs, %.1f %% filled", epoch.packs, 100.0 * epoch.fill()));
}

// The first row of each reason for which rows were dropped or cut; empty where none was.
absl::StatusOr<std::string> DescribeDropped(const RunData& data, const std::string& list) {
  std::map<std::string, std::string> first;
  const auto visit = [&](const DroppedRow& row) {
    first.try_emplace(row.reason, StrCat("first ", row.reason, ": ", row.place.file, ":", row.place.line,
                                         row.message.empty() ? "" : ": ", row.message, "\n"));
    return absl::OkStatus();
  };
  FTUNE_RETURN_IF_ERROR(data.VisitDropped(visit));
  std::string text;
  for (const auto& [reason, line] : first) StrAppend(text, line);
  if (text.empty()) return text;
  StrAppend(text, list.empty() ? "all of them: ftune data --dropped FILE" : "all of them: " + list, "\n");
  return text;
}

absl::StatusOr<CommandResult> Run(const Options& options, const Invocation& invocation) {
  FTUNE_ASSIGN_OR_RETURN(LoadedRecipe loaded, OpenRecipe(options.recipe, options.overrides));
  if (loaded.recipe.data.streaming) {
    ErrorDetail detail = loaded.At("data.streaming");
    detail.message = "streamed data is read while training, so there is nothing to prepare";
    detail.hint = "set data.streaming: false to prepare it ahead";
    return UsageError(std::move(detail));
  }
  const HubReporter hub = HubProgress(invocation.verbosity());
  Progress progress(stderr, invocation.verbosity());
  FTUNE_ASSIGN_OR_RETURN(const ModelPlan model, ToModelPlan(loaded, hub));
  FTUNE_ASSIGN_OR_RETURN(const RunData data, LoadRunData(loaded, model, hub, progress));
  for (const std::string& note : data.notes) progress.Say(note);
  FTUNE_ASSIGN_OR_RETURN(const DataPlan plan, data.TrainPlan(loaded.recipe));

  CommandResult result{.json = PartJson(*data.train, plan, data.train_store)};
  std::string text = StrCat(DescribePart(*data.train, plan), "\n");
  if (!data.train_store.path.empty()) StrAppend(text, DescribeStore(data.train_store), "\n");
  if (data.evaluation) {
    FTUNE_ASSIGN_OR_RETURN(const DataPlan evaluation, data.EvaluationPlan(loaded.recipe));
    result.json["evaluation"] = PartJson(*data.evaluation, evaluation, data.evaluation_store);
    StrAppend(text, "evaluation: ", DescribePart(*data.evaluation, evaluation), "\n");
    if (!data.evaluation_store.path.empty()) StrAppend(text, DescribeStore(data.evaluation_store), "\n");
  }
  if (!options.dropped.empty()) {
    FTUNE_RETURN_IF_ERROR(WriteDropped(data, std::filesystem::absolute(options.dropped)));
  }
  FTUNE_ASSIGN_OR_RETURN(const std::string dropped, DescribeDropped(data, options.dropped));
  StrAppend(text, dropped);
  if (!invocation.json) std::printf("%s", text.c_str());
  return result;
}

}  // namespace

void AddData(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("data", "Tokenises a recipe's data ahead, for the runs that use it");
  command->add_option("RECIPE", options->recipe, "A recipe (YAML)")->required();
  command->add_option("OVERRIDES", options->overrides, "key.sub=value, instead of what the recipe says");
  command->add_option(
      "--dropped", options->dropped,
      "Write a line of JSON for each row that is dropped or cut to this file: file, line, why");
  command->callback([options, &invocation] {
    invocation.run = [options, &invocation] { return Run(*options, invocation); };
  });
}

}  // namespace ftune
