// ftune eval MODEL DATA: loss and perplexity.

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/strings.h"
#include "cmd/command.h"
#include "cmd/hub/resolve.h"
#include "cmd/model_session.h"
#include "cmd/report/hub_progress.h"
#include "cmd/run_data.h"
#include "cmd/run_folder.h"
#include "data/template/load_chat_template.h"
#include "engine/shard/model_shards.h"
#include "engine/train/trainer.h"

namespace ftune {
namespace {

struct Options {
  std::string model;
  std::string data;
  std::string name;
  std::string split;
  std::vector<std::string> adapters;
  std::string quantize;
  std::string chat_template = "auto";
  int64_t sequence_len = 2048;
  bool train_on_inputs = false;
};

absl::StatusOr<DatasetEntry> FindEntry(const Options& options, const HubReporter& hub) {
  DatasetChoice choice{.train_is_meant = false};
  if (!options.name.empty()) choice.subset = options.name;
  if (!options.split.empty()) choice.split = options.split;
  FTUNE_ASSIGN_OR_RETURN(const ResolvedDataset resolved,
                         ResolveDataset(options.data, std::nullopt, choice, hub));
  if (resolved.commit.empty() && (choice.subset || choice.split)) {
    return UsageError({.file = "command line",
                       .key = choice.split ? "--split" : "--name",
                       .message = StrCat("'", options.data, "' is a path here, and has no ",
                                         choice.split ? "splits" : "subsets"),
                       .hint = "remove it, or name a dataset of the hub: org/name"});
  }
  return DatasetEntry{.path = options.data, .files = resolved.files};
}

absl::StatusOr<CommandResult> Run(const Options& options, const Invocation& invocation) {
  const HubReporter hub = HubProgress(invocation.verbosity());
  FTUNE_ASSIGN_OR_RETURN(RunModel source, FindRunModel(options.model, "", hub));
  source.adapters.insert(source.adapters.end(), options.adapters.begin(), options.adapters.end());
  FTUNE_ASSIGN_OR_RETURN(const ModelFiles files, OpenModel(source.model));
  const int64_t length = std::min(options.sequence_len, files.config.LongestText());
  FTUNE_ASSIGN_OR_RETURN(
      ModelSession session,
      OpenSession(source.model,
                  {.max_length = length, .adapters = source.adapters, .trained = source.trained},
                  options.quantize));

  std::unique_ptr<ChatTemplate> chat_template;
  TemplateText text;
  if (options.chat_template != "auto" || !session.tokenizer->chat_template().empty()) {
    FTUNE_ASSIGN_OR_RETURN(
        text, FindTemplate(options.chat_template, {.file = "command line", .key = "--chat-template"},
                           *session.tokenizer, source.model));
    FTUNE_ASSIGN_OR_RETURN(chat_template, ParseTemplateText(text, session.tokenizer->special()));
  }
  Progress progress(stderr, invocation.verbosity());
  FTUNE_ASSIGN_OR_RETURN(const DatasetEntry entry, FindEntry(options, hub));
  PrepareOptions prepare{.folder = PreparedFolder(std::nullopt), .memory_will_do = true};
  FTUNE_ASSIGN_OR_RETURN(
      prepare.source, DescribeSource(TokenizerOf(session.loaded.files), text.source,
                                     {.train_on_inputs = options.train_on_inputs, .sequence_len = length}));
  FTUNE_ASSIGN_OR_RETURN(
      PreparedDataset prepared,
      PrepareDataset({entry}, *session.tokenizer, chat_template.get(), prepare, ShowPreparation(progress)));
  Dataset dataset = std::move(prepared.dataset);
  FTUNE_RETURN_IF_ERROR(CheckIds(dataset.report, files.config.vocab_size, source.model));
  if (!prepared.store.path.empty()) progress.Say(DescribeStore(prepared.store));
  progress.Say(StrCat("data: ", DescribeDataset(dataset)));
  FTUNE_ASSIGN_OR_RETURN(const DataPlan plan,
                         DataPlan::CreateForEvaluation(std::make_shared<Dataset>(std::move(dataset)),
                                                       {.sequence_len = length, .global_batch_size = 1}));

  const auto shards = ModelShards::Single(*session.backend, Stream(), *session.loaded.model);
  Runner runner(*session.backend, Stream(), *session.loaded.model, RecomputePolicy());
  const EvalResult result =
      EvaluateModel(*session.backend, Stream(), runner, *shards, plan, [] { return false; });
  if (!std::isfinite(result.loss)) {
    return UserError(ExitCode::kNotFinite, {.file = options.model,
                                            .found = absl::StrFormat("loss %g", result.loss),
                                            .expected = "a finite number",
                                            .hint = "the model's weights are broken"});
  }
  if (!invocation.json) {
    std::printf("%s\n", absl::StrFormat("loss %.6f  perplexity %.4f  trained tokens %d", result.loss,
                                        std::exp(result.loss), result.tokens)
                            .c_str());
  }
  return CommandResult{.json = {{"eval_loss", result.loss},
                                {"perplexity", std::exp(result.loss)},
                                {"trained_tokens", result.tokens}}};
}

}  // namespace

void AddEval(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("eval", "Loss and perplexity of a model on a dataset");
  command->add_option("MODEL", options->model, "A model's folder, .gguf file or hub id, or a run's folder")
      ->required();
  command->add_option("DATA", options->data, "A dataset: a file, or a hub id")->required();
  command->add_option("--name", options->name, "Of a dataset of the hub: its subset");
  command->add_option("--split", options->split, "Of a dataset of the hub: its split");
  command
      ->add_option("--adapter", options->adapters,
                   "A PEFT adapter's folder; several: one on top of the other")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  AddQuantizeOption(*command, options->quantize);
  command->add_option("--chat-template", options->chat_template,
                      "auto, a built-in template's name, a Jinja file, or Jinja text");
  command->add_option("--sequence-len", options->sequence_len, "Longest sample, in tokens")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 30))
      ->capture_default_str();
  command->add_flag("--train-on-inputs", options->train_on_inputs, "Count prompts too");
  command->callback([options, &invocation] {
    invocation.run = [options, &invocation] { return Run(*options, invocation); };
  });
}

}  // namespace ftune
