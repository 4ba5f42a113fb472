// ftune inspect RECIPE: the data as the model will see it.

#include "data/source/inspect.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/strings.h"
#include "cmd/command.h"
#include "cmd/report/hub_progress.h"
#include "cmd/run_data.h"
#include "cmd/run_options.h"
#include "cmd/streamed_data.h"
#include "data/loader/planned_batches.h"

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

absl::StatusOr<nlohmann::ordered_json> StepsJson(BatchSource& batches, int64_t steps) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (int64_t i = 0; i < steps; ++i) {
    FTUNE_ASSIGN_OR_RETURN(const std::optional<StepBatches> step, batches.Next());
    if (!step) break;
    nlohmann::ordered_json microbatches = nlohmann::ordered_json::array();
    for (const Batch& batch : step->microbatches) microbatches.push_back(BatchJson(batch));
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

absl::Status NoSuchSample(int64_t sample, int64_t samples) {
  return UsageError({.file = "command line",
                     .key = "--sample",
                     .found = StrCat(sample),
                     .expected = StrCat("0 to ", samples - 1)});
}

// Sample number `wanted` of the input.
absl::StatusOr<std::vector<StoredToken>> StreamedSample(const RowInput& input, int64_t wanted) {
  FTUNE_ASSIGN_OR_RETURN(const std::unique_ptr<RowStream> rows, input.open());
  for (int64_t count = 0;;) {
    FTUNE_ASSIGN_OR_RETURN(std::optional<StreamedRow> row, rows->Next());
    if (!row) return NoSuchSample(wanted, count);
    for (std::vector<StoredToken>& sample : *row) {
      if (count++ == wanted) return std::move(sample);
    }
  }
}

absl::StatusOr<CommandResult> RunStreamed(const Options& options, const Invocation& invocation,
                                          const Recipe& recipe, const RunData& data) {
  StreamedData stream(recipe, data, [](const std::string&) {});
  CommandResult result{.json = {{"samples", nullptr},
                                {"tokens", nullptr},
                                {"trained_tokens", nullptr},
                                {"packs", nullptr},
                                {"fill", nullptr}}};
  if (!invocation.json) {
    if (options.sample < 0) return NoSuchSample(options.sample, int64_t{1} << 62);
    FTUNE_ASSIGN_OR_RETURN(const std::vector<StoredToken> sample,
                           StreamedSample(stream.input(), options.sample));
    std::printf("sample %d:\n%s\n", static_cast<int>(options.sample),
                RenderSample(sample, *data.tokenizer, UseColour(stdout)).c_str());
    std::printf("data: streamed, so its samples, tokens and packs are not known beforehand\n");
  } else if (options.batches > 0) {
    StreamedBatches batches(stream.input(), ToStreamOptions(recipe, /*data_rank=*/0));
    FTUNE_ASSIGN_OR_RETURN(result.json["batches"], StepsJson(batches, options.batches));
  }
  result.json["dropped"] = stream.report().dropped;  // so far
  return result;
}

absl::StatusOr<CommandResult> Run(const Options& options, const Invocation& invocation) {
  FTUNE_ASSIGN_OR_RETURN(LoadedRecipe loaded, OpenRecipe(options.recipe, options.overrides));
  Progress progress(stderr, invocation.verbosity());
  const HubReporter hub = HubProgress(invocation.verbosity());
  FTUNE_ASSIGN_OR_RETURN(const ModelPlan model, ToModelPlan(loaded, hub));
  FTUNE_ASSIGN_OR_RETURN(const RunData data, LoadRunData(loaded, model, hub, progress));
  if (loaded.recipe.data.streaming) return RunStreamed(options, invocation, loaded.recipe, data);
  FTUNE_ASSIGN_OR_RETURN(const DataPlan plan, data.TrainPlan(loaded.recipe));
  const int64_t samples = data.train->size();
  if (options.sample < 0 || options.sample >= samples) return NoSuchSample(options.sample, samples);

  const DataPlan::Epoch& epoch = plan.epochs().front();
  CommandResult result{.json = {{"samples", samples},
                                {"tokens", data.train->tokens()},
                                {"trained_tokens", data.train->trained_tokens()},
                                {"packs", epoch.packs},
                                {"fill", epoch.fill()},
                                {"dropped", data.train->report.dropped}}};
  result.json["shown"] = SamplesJson(data, options.sample, options.count);
  result.json["audit"] = data.Audit().ToJson();
  if (options.batches > 0) {
    PlannedBatches batches(plan);
    FTUNE_ASSIGN_OR_RETURN(result.json["batches"], StepsJson(batches, options.batches));
  }
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
