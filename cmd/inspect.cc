// ftune inspect RECIPE: the data as the model will see it.

#include "data/source/inspect.h"

#include <CLI/CLI.hpp>
#include <algorithm>
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
  int64_t sample = 0;
  int64_t count = 1;
  int64_t batches = 0;
};

nlohmann::ordered_json BatchJson(const Batch& batch) {
  nlohmann::ordered_json segments = nlohmann::ordered_json::array();
  for (const Segment& s : batch.segments) segments.push_back({s.begin, s.length});
  return {
      {"ids", batch.ids}, {"positions", batch.positions}, {"labels", batch.labels}, {"segments", segments}};
}

nlohmann::ordered_json StepsJson(const DataPlan& plan, int64_t steps) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (int64_t step = 0; step < std::min(steps, plan.total_steps()); ++step) {
    nlohmann::ordered_json microbatches = nlohmann::ordered_json::array();
    for (int64_t i = 0; i < plan.MicroBatches(step); ++i)
      microbatches.push_back(BatchJson(plan.MicroBatch(step, i)));
    all.push_back(microbatches);
  }
  return all;
}

// `count` samples from `first` on: ids, labels as transformers has them (not shifted), text.
nlohmann::ordered_json SamplesJson(const RunData& data, int64_t first, int64_t count) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (int64_t i = first; i < std::min(first + count, data.train->size()); ++i) {
    std::vector<int32_t> ids, labels;
    for (const StoredToken token : data.train->sample(i)) {
      ids.push_back(token.id());
      labels.push_back(token.trained() ? token.id() : kIgnoreLabel);
    }
    const SampleInfo info = data.train->info(i);
    all.push_back({{"sample", i},
                   {"entry", info.entry},
                   {"row", info.row},
                   {"ids", ids},
                   {"labels", labels},
                   {"text", data.tokenizer->Decode(ids, /*skip_special=*/false)}});
  }
  return all;
}

absl::StatusOr<CommandResult> Run(const Options& options, const Invocation& invocation) {
  FTUNE_ASSIGN_OR_RETURN(LoadedRecipe loaded, OpenRecipe(options.recipe, options.overrides));
  const HubReporter hub = HubProgress(invocation.verbosity());
  FTUNE_ASSIGN_OR_RETURN(const ModelPlan model, ToModelPlan(loaded, hub));
  FTUNE_ASSIGN_OR_RETURN(const RunData data, LoadRunData(loaded, model, hub));
  FTUNE_ASSIGN_OR_RETURN(const DataPlan plan, data.TrainPlan(loaded.recipe));
  const int64_t samples = data.train->size();
  if (options.sample < 0 || options.sample >= samples) {
    return UsageError({.file = "command line",
                       .key = "--sample",
                       .found = StrCat(options.sample),
                       .expected = StrCat("0 to ", samples - 1)});
  }

  const DataPlan::Epoch& epoch = plan.epochs().front();
  std::map<std::string, int64_t> dropped;
  for (const DroppedRow& row : data.train->report.dropped) ++dropped[std::string(DropReasonName(row.reason))];
  CommandResult result{.json = {{"samples", samples},
                                {"tokens", data.train->tokens()},
                                {"trained_tokens", data.train->trained_tokens()},
                                {"packs", epoch.packs},
                                {"fill", epoch.fill()},
                                {"dropped", dropped}}};
  result.json["shown"] = SamplesJson(data, options.sample, options.count);
  result.json["audit"] = data.Audit().ToJson();
  if (options.batches > 0) result.json["batches"] = StepsJson(plan, options.batches);
  if (invocation.json) return result;

  for (int64_t i = options.sample; i < std::min(options.sample + options.count, samples); ++i) {
    std::printf("%s\n", absl::StrFormat("sample %d of %d:", i, samples).c_str());
    std::printf("%s\n", RenderSample(data.train->sample(i), *data.tokenizer, UseColour(stdout)).c_str());
  }
  for (const std::string& line : data.Audit().Lines()) std::printf("%s\n", line.c_str());
  std::printf("data: %s\npacks an epoch: %s\n", DescribeDataset(*data.train).c_str(),
              absl::StrFormat("%d, %.1f %% filled", epoch.packs, 100.0 * epoch.fill()).c_str());
  return result;
}

}  // namespace

void AddInspect(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("inspect", "Shows a sample as tokens: trained, masked, special");
  command->add_option("RECIPE", options->recipe, "A recipe (YAML)")->required();
  command->add_option("OVERRIDES", options->overrides, "key.sub=value, instead of what the recipe says");
  command->add_option("--sample", options->sample, "Which sample, from 0")->capture_default_str();
  command->add_option("--count", options->count, "How many samples from there on")->capture_default_str();
  command->add_option("--batches", options->batches, "With --json: the microbatches of the first N steps too")
      ->capture_default_str();
  command->callback([options, &invocation] {
    invocation.run = [options, &invocation] { return Run(*options, invocation); };
  });
}

}  // namespace ftune
