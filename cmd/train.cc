// ftune train RECIPE: fine-tunes a model on this machine.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>

#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "cmd/audit.h"
#include "cmd/command.h"
#include "cmd/lr_range_test.h"
#include "cmd/model_session.h"
#include "cmd/report/hub_progress.h"
#include "cmd/report/run_log.h"
#include "cmd/run_data.h"
#include "cmd/run_folder.h"
#include "cmd/run_observer.h"
#include "cmd/run_options.h"
#include "cmd/save_result.h"
#include "cmd/stop_signal.h"
#include "cmd/streamed_data.h"
#include "data/loader/checked_batches.h"
#include "data/loader/planned_batches.h"
#include "engine/adapter/loraplus.h"
#include "engine/adapter/module_pattern.h"
#include "engine/format/quantized_weights.h"

namespace ftune {
namespace {

struct Options {
  std::string recipe;
  std::vector<std::string> overrides;
  bool force = false;
  bool print = false;
  bool dry_run = false;
  bool lr_range_test = false;
};

// What an earlier run left here is removed when the new one starts: not what that one is made from.
absl::Status CheckKeepsSources(const RunPaths& paths, const ModelPlan& plan) {
  std::vector<std::filesystem::path> sources = {plan.model_path, plan.tokenizer};
  sources.insert(sources.end(), plan.options.adapters.begin(), plan.options.adapters.end());
  for (const std::filesystem::path& source : sources) {
    for (const std::filesystem::path& removed : {paths.model(), paths.adapter()}) {
      std::error_code error;
      if (!Exists(removed) || !std::filesystem::equivalent(source, removed, error)) continue;
      return UsageError(
          {.file = source.string(),
           .key = "output_dir",
           .message = "the run is made from what is in its own output_dir, and would replace it",
           .hint = "choose another output_dir"});
    }
  }
  return absl::OkStatus();
}

// Something must train, and each pattern of train.freeze must mean something.
absl::Status CheckTrainable(const LoadedRecipe& loaded, const Model& model) {
  ErrorDetail detail = loaded.At("train.freeze");
  const std::vector<const Parameter*> parameters = model.parameters();
  for (const std::string& text : loaded.recipe.train.freeze) {
    FTUNE_ASSIGN_OR_RETURN(const ModulePattern pattern, ModulePattern::Compile(text));
    const bool used = std::any_of(parameters.begin(), parameters.end(),
                                  [&](const Parameter* p) { return pattern.MatchesPart(p->name); });
    if (used) continue;
    detail.found = StrCat("'", text, "', which matches no parameter");
    detail.expected =
        StrCat("a regular expression of names such as ", parameters[parameters.size() / 2]->name);
    return UsageError(detail);
  }
  if (std::any_of(parameters.begin(), parameters.end(), [](const Parameter* p) { return p->trainable; })) {
    return absl::OkStatus();
  }
  detail.message = "it freezes every parameter of the model";
  detail.hint = "leave some of them out of it";
  return UsageError(detail);
}

// The rows of added tokens mean nothing until they are learned.
absl::Status CheckAddedTokensTrain(const LoadedRecipe& loaded, Model& model) {
  const ModuleNames& names = model.config().architecture->names;
  for (const std::string_view module : {names.embedding, names.head}) {
    const Parameter* p = model.Find(StrCat(module, ".weight"));
    if (p == nullptr || p->trainable) continue;
    ErrorDetail detail = loaded.At("train.freeze");
    detail.message = StrCat("it freezes ", p->name, ", whose rows for model.added_tokens must be learned");
    detail.hint = "leave it out of train.freeze, or add no tokens";
    return UsageError(detail);
  }
  return absl::OkStatus();
}

// What is known of the data before the first step, of the first epoch; nothing of streamed data.
nlohmann::ordered_json DataFacts(const std::optional<DataPlan>& plan) {
  if (!plan) return nlohmann::ordered_json::object();
  const DataPlan::Epoch& epoch = plan->epochs().front();
  return {{"samples", epoch.samples}, {"tokens", epoch.tokens}, {"trained_tokens", epoch.trained_tokens},
          {"packs", epoch.packs},     {"fill", epoch.fill()},   {"steps_per_epoch", epoch.steps}};
}

nlohmann::ordered_json StartFacts(const Model& model, int64_t total_steps, const MemoryUse& memory) {
  int64_t total = 0, trainable = 0;
  for (const Parameter* p : model.parameters()) {
    total += p->size();
    if (p->trainable) trainable += p->size();
  }
  return {{"parameters", total},
          {"trainable_parameters", trainable},
          {"total_steps", total_steps},
          {"memory", ToJson(memory)}};
}

class TrainRun {
 public:
  TrainRun(const Options& options, const Invocation& invocation)
      : options_(options),
        json_(invocation.json),
        progress_(stderr, invocation.verbosity()),
        hub_(HubProgress(invocation.verbosity())) {}

  absl::StatusOr<CommandResult> Run() {
    absl::StatusOr<CommandResult> result = RunRecipe();
    if (!result.ok()) return loaded_recipe_.Placed(std::move(result).status());
    return result;
  }

 private:
  absl::StatusOr<CommandResult> RunRecipe() {
    FTUNE_ASSIGN_OR_RETURN(loaded_recipe_, OpenRecipe(options_.recipe, options_.overrides));
    if (options_.lr_range_test) PrepareRangeTest(loaded_recipe_.recipe);
    if (options_.print) {
      std::printf("%s", ToYaml(recipe()).c_str());
      return CommandResult{};
    }
    FTUNE_ASSIGN_OR_RETURN(ModelPlan model_plan, ToModelPlan(loaded_recipe_, hub_));

    std::optional<RunFolder> folder;
    if (!options_.dry_run) {
      FTUNE_ASSIGN_OR_RETURN(RunFolder created, RunFolder::Create(*recipe().output_dir, options_.force));
      folder.emplace(std::move(created));
    }
    FTUNE_RETURN_IF_ERROR(PrepareData(model_plan));
    if (options_.dry_run) return DryRunResult();

    stop_.emplace();  // before the device starts its threads
    if (data_.added) {
      model_plan.options.growth = {
          .rows = data_.added->rows(), .known = data_.added->known, .ids = data_.added->ids};
      model_plan.options.tokenizer_folder = data_.tokenizer_folder->path();
    }
    FTUNE_RETURN_IF_ERROR(CheckKeepsSources(folder->paths(), model_plan));
    FTUNE_RETURN_IF_ERROR(PrepareModel(model_plan, folder->paths()));
    if (options_.lr_range_test) return TestLearningRates(folder->paths());
    FTUNE_RETURN_IF_ERROR(folder->Clear());
    FTUNE_RETURN_IF_ERROR(WriteFileAtomic(folder->paths().recipe(), ToYaml(recipe())));
    FTUNE_RETURN_IF_ERROR(WriteDropped(data_, folder->paths().dropped()));
    if (!stream_) FTUNE_RETURN_IF_ERROR(WriteAudit(AuditOf(data_), folder->paths().audit()));
    FTUNE_ASSIGN_OR_RETURN(const std::unique_ptr<RunLog> log, RunLog::Open(folder->paths().log()));
    return Train(folder->paths(), *log);
  }

  const Recipe& recipe() const { return loaded_recipe_.recipe; }

  absl::Status PrepareData(const ModelPlan& model_plan) {
    FTUNE_ASSIGN_OR_RETURN(data_, LoadRunData(loaded_recipe_, model_plan, hub_, progress_));
    for (const std::string& note : data_.notes) progress_.Say(note);
    for (const PreparedStore* store : {&data_.train_store, &data_.evaluation_store}) {
      if (!store->path.empty()) progress_.Say(DescribeStore(*store));
    }
    FTUNE_RETURN_IF_ERROR(PlanSteps());
    if (data_.evaluation) {
      FTUNE_ASSIGN_OR_RETURN(DataPlan evaluation, data_.EvaluationPlan(recipe()));
      evaluation_.emplace(std::move(evaluation));
      progress_.Say(StrCat("evaluation: ", DescribeDataset(*data_.evaluation)));
    }
    FTUNE_ASSIGN_OR_RETURN(
        PromptSampler sampler,
        PromptSampler::Create(recipe().train.sample_prompts, recipe().train.sample_max_new_tokens,
                              recipe().data.sequence_len, *data_.tokenizer, data_.chat_template.get()));
    sampler_.emplace(std::move(sampler));
    return absl::OkStatus();
  }

  absl::Status PlanSteps() {
    if (recipe().data.streaming) {
      stream_ = std::make_unique<StreamedData>(recipe(), data_,
                                               [this](const std::string& text) { progress_.Say(text); });
      steps_.total = *recipe().train.max_steps;
      progress_.Say(
          absl::StrFormat("data: streamed, so its samples, tokens and epochs are not known beforehand\n"
                          "plan: %d steps of up to %d × %d tokens",
                          steps_.total, *recipe().train.global_batch_size, recipe().data.sequence_len));
      return absl::OkStatus();
    }
    progress_.Say(StrCat("data: ", DescribeDataset(*data_.train)));
    FTUNE_RETURN_IF_ERROR(SayAudit(AuditOf(data_)));
    FTUNE_ASSIGN_OR_RETURN(DataPlan plan, data_.TrainPlan(recipe()));
    plan_.emplace(std::move(plan));
    const DataPlan::Epoch& epoch = plan_->epochs().front();
    steps_ = {plan_->total_steps(), epoch.steps};
    progress_.Say(absl::StrFormat(
        "plan: %d steps of up to %d × %d tokens; an epoch is %d samples, %d tokens (%d trained) in %d packs, "
        "%.1f %% filled, in %d steps",
        steps_.total, *recipe().train.global_batch_size, recipe().data.sequence_len, epoch.samples,
        epoch.tokens, epoch.trained_tokens, epoch.packs, 100.0 * epoch.fill(), epoch.steps));
    if (plan_->used_up()) {
      progress_.Say(StrCat("plan: all data is used up after epoch ", plan_->epochs().size(),
                           ", by the epochs of its entries"));
    }
    return absl::OkStatus();
  }

  absl::Status SayAudit(const DataAudit& audit) {
    for (const std::string& line : AuditLines(audit)) progress_.Say(line);
    return CheckAudit(audit, recipe().data.audit);
  }

  // Streamed data is audited when the window of the first batch was read.
  std::unique_ptr<BatchSource> MakeBatches(const RunPaths& paths) {
    if (!stream_) return std::make_unique<PlannedBatches>(*plan_);
    const auto audit = [this, path = paths.audit()]() -> absl::Status {
      const DataAudit first = stream_->Audit();
      FTUNE_RETURN_IF_ERROR(SayAudit(first));
      return WriteAudit(first, path);
    };
    return std::make_unique<CheckedBatches>(
        std::make_unique<StreamedBatches>(stream_->input(), ToStreamOptions(recipe())), audit);
  }

  CommandResult DryRunResult() const {
    CommandResult result{.json = {{"run", *recipe().output_dir}, {"steps", steps_.total}}};
    result.json.update(DataFacts(plan_));
    result.json["exit"] = 0;
    return result;
  }

  absl::Status PrepareModel(const ModelPlan& model_plan, const RunPaths& paths) {
    backend_ = MakeCpuBackend(static_cast<int>(*recipe().launch.threads));
    FTUNE_ASSIGN_OR_RETURN(model_, LoadModel(*backend_, Stream(), model_plan.model_path, model_plan.options));
    model_.files.chat_template = data_.own_template;
    NameBase(model_plan);
    FTUNE_RETURN_IF_ERROR(CheckTrainable(loaded_recipe_, *model_.model));
    if (data_.added && !data_.added->ids.empty()) {
      FTUNE_RETURN_IF_ERROR(CheckAddedTokensTrain(loaded_recipe_, *model_.model));
    }
    if (model_.quantize) progress_.Say(DescribeQuantized());
    if (recipe().adapter && recipe().adapter->loraplus_lr_ratio) {
      const AdapterSection& adapter = *recipe().adapter;
      const double peak = *recipe().optimizer.learning_rate;
      SetLoraPlusRates(model_.model->parameters(),
                       {.ratio = *adapter.loraplus_lr_ratio,
                        .embedding_factor = peak > 0 ? *adapter.loraplus_lr_embedding / peak : 0.0});
    }
    FTUNE_RETURN_IF_ERROR(MakeOptimizer(paths));
    model_.model->AllocateGradients(*backend_, Stream());
    return absl::OkStatus();
  }

  // An adapter's base is named as the recipe names it, so that the adapter can be used elsewhere.
  void NameBase(const ModelPlan& model_plan) {
    const ModelSection& model = recipe().model;
    if (model_plan.model_path != model.here || model.path == model.here) return;
    model_.files.name = model.path;
    model_.files.revision = model.revision.value_or("");
  }

  absl::Status MakeOptimizer(const RunPaths& paths) {
    const OptimizerOptions options = ToOptimizerOptions(recipe());
    if (recipe().memory.offload == Offload::kNone) {
      optimizer_ = std::make_unique<Optimizer>(*backend_, Stream(), *model_.model, options);
      return absl::OkStatus();
    }
    FTUNE_ASSIGN_OR_RETURN(optimizer_, Optimizer::CreateOffloaded(*backend_, Stream(), *model_.model, options,
                                                                  {.disk = {.folder = paths.folder}}));
    if (const StateDisk* disk = optimizer_->disk()) {
      progress_.Say(absl::StrFormat("optimizer states: %.1f MiB in %s (%s)",
                                    static_cast<double>(disk->file_bytes()) / (1 << 20),
                                    paths.folder.string(), disk->method()));
    } else {
      progress_.Say("memory.offload: this optimizer keeps nothing, so nothing is moved");
    }
    return absl::OkStatus();
  }

  std::string DescribeQuantized() const {
    const QuantizedWeights weights = FindQuantized(*model_.model, *model_.files.weights);
    constexpr double kMiB = 1 << 20;
    std::string text = absl::StrFormat(
        "quantised to %s: %d linears, %.1f MiB in the file, %.1f MiB in memory",
        std::string(QuantizationName(model_.quantize)), weights.count,
        static_cast<double>(weights.source_bytes) / kMiB, static_cast<double>(weights.bytes) / kMiB);
    if (weights.twice > 0) {
      StrAppend(text, "; ", weights.twice,
                " were quantised in the file already and are rounded a second time");
    }
    return text;
  }

  void WarnOfWarmup(const LrOptions& rate) {
    if (rate.warmup_steps < rate.total_steps || rate.total_steps == 0) return;
    progress_.Say(absl::StrFormat(
        "warning: the warm-up of %d steps is as long as the run of %d steps: the learning rate never "
        "reaches %g; lower optimizer.warmup_steps",
        rate.warmup_steps, rate.total_steps, rate.peak));
  }

  absl::StatusOr<CommandResult> Train(const RunPaths& paths, RunLog& log) {
    nlohmann::ordered_json facts = StartFacts(*model_.model, steps_.total, backend_->ledger().current());
    facts.update(DataFacts(plan_));
    log.Start(facts);
    if (stream_) FTUNE_RETURN_IF_ERROR(stream_->ListDropped(paths.dropped()));
    RunObserver observer(log, progress_);
    if (!sampler_->empty()) {
      observer.set_answers([this] { return sampler_->Answer(*backend_, Stream(), *model_.model); });
    }
    // With early stopping the weights of the best evaluation are the result, so they are saved as they come.
    const bool keeps_best = recipe().train.early_stopping_patience.has_value();
    std::filesystem::path saved;
    const auto save = [&](int64_t step) -> absl::Status {
      FTUNE_ASSIGN_OR_RETURN(saved,
                             SaveResult(*backend_, model_, ToDType(*recipe().precision.weights), paths));
      log.Save(step, saved);
      return absl::OkStatus();
    };
    if (keeps_best) observer.set_on_best(save);

    const TrainerOptions options = ToTrainerOptions(recipe(), steps_);
    WarnOfWarmup(options.learning_rate);
    const std::unique_ptr<BatchSource> batches = MakeBatches(paths);
    Trainer trainer(*backend_, Stream(), *model_.model, *optimizer_, *batches,
                    evaluation_ ? &*evaluation_ : nullptr, options, observer);
    FTUNE_ASSIGN_OR_RETURN(const TrainSummary summary,
                           trainer.Run([this] { return stop_->received() != 0; }));
    if (saved.empty()) FTUNE_RETURN_IF_ERROR(save(summary.steps));
    if (stream_) progress_.Say(StrCat("data: ", DescribeStream(stream_->report())));
    if (summary.data_ended) {
      progress_.Say(absl::StrFormat("the data ended after step %d of %d", summary.steps, steps_.total));
    }
    if (keeps_best && summary.best_loss) {
      progress_.Say(absl::StrFormat("%s; the result is that of step %d, eval loss %.4f",
                                    summary.early     ? "no better evaluation: stopped early"
                                    : summary.stopped ? "stopped"
                                                      : "all steps done",
                                    summary.best_step, *summary.best_loss));
    }

    const int exit = summary.stopped ? static_cast<int>(ExitCode::kPreempted) : 0;
    const auto number = [](const std::optional<double>& x) {
      return x ? nlohmann::ordered_json(*x) : nullptr;
    };
    CommandResult result{.json = {{"run", paths.folder.string()},
                                  {"steps", summary.steps},
                                  {"loss", number(summary.loss)},
                                  {"eval_loss", number(summary.eval_loss)},
                                  {"exit", exit}},
                         .exit = exit};
    log.End(summary.steps, result.json);
    FTUNE_RETURN_IF_ERROR(log.status());
    if (summary.stopped) {
      progress_.Say(
          absl::StrFormat("stopped by %s after step %d of %d; saved %s\nto go on from there: ftune train %s "
                          "model.init_from=%s "
                          "output_dir=NEW",
                          stop_->received() == SIGINT ? "SIGINT" : "SIGTERM", summary.steps, steps_.total,
                          saved.string(), options_.recipe, saved.string()));
    } else {
      progress_.Say(StrCat("done: ", saved.string()));
    }
    if (!json_) std::printf("%s\n", saved.c_str());
    return result;
  }

  absl::StatusOr<CommandResult> TestLearningRates(const RunPaths& paths) {
    LrRangeTest test(progress_);
    TrainerOptions trainer_options = ToTrainerOptions(recipe(), steps_);
    trainer_options.learning_rate = LrRangeTest::Schedule();
    trainer_options.learning_rate.total_steps = steps_.total;
    trainer_options.eval_on_start = false;
    const std::unique_ptr<BatchSource> batches = MakeBatches(paths);
    Trainer trainer(*backend_, Stream(), *model_.model, *optimizer_, *batches, nullptr, trainer_options,
                    test);
    const absl::StatusOr<TrainSummary> summary =
        trainer.Run([&] { return stop_->received() != 0 || test.diverged(); });
    if (stop_->received() != 0) {
      progress_.Say("stopped: the test was not finished, so nothing is suggested");
      constexpr int kStopped = static_cast<int>(ExitCode::kPreempted);
      return CommandResult{.json = {{"run", paths.folder.string()}, {"exit", kStopped}}, .exit = kStopped};
    }
    // At some rate the loss is no longer a number: the test ends there, as at any divergence.
    if (!summary.ok() && ExitCodeOf(summary.status()) != static_cast<int>(ExitCode::kNotFinite))
      return summary.status();
    FTUNE_ASSIGN_OR_RETURN(const LrRangeResult result, test.Result());
    return ReportRangeTest(result, paths.folder, json_);
  }

  const Options& options_;
  bool json_;
  Progress progress_;
  HubReporter hub_;
  LoadedRecipe loaded_recipe_;
  RunData data_;
  std::unique_ptr<StreamedData> stream_;  // with data.streaming; otherwise there is a plan
  std::optional<DataPlan> plan_;
  RunLength steps_;
  std::optional<DataPlan> evaluation_;
  std::optional<PromptSampler> sampler_;
  std::optional<StopSignal> stop_;
  std::unique_ptr<Backend> backend_;
  LoadedModel model_;
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace

void AddTrain(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("train", "Fine-tunes a model as a recipe says");
  command->add_option("RECIPE", options->recipe, "A recipe (YAML)")->required();
  command->add_option("OVERRIDES", options->overrides, "key.sub=value, instead of what the recipe says");
  command->add_flag("--force", options->force, "Replace the run that output_dir has");
  command->add_flag("--print", options->print, "Print the resolved recipe and do nothing");
  command->add_flag("--dry-run", options->dry_run, "Read the data and plan the steps, but do not train");
  command->add_flag(
      "--lr-range-test", options->lr_range_test,
      "Train a little at rising learning rates, plot the loss and suggest one; keep no weights");
  command->callback([options, &invocation] {
    invocation.run = [options, &invocation] { return TrainRun(*options, invocation).Run(); };
  });
}

}  // namespace ftune
