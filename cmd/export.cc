// ftune export RUN|CHECKPOINT|ADAPTER: what a run has trained, as others load it: a model, the model with an
// adapter merged into it, the adapter, or the model in another type or shard size.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>

#include "absl/strings/str_format.h"
#include "base/convert.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "base/tensor_bytes.h"
#include "cmd/checkpoint/checkpoint_model.h"
#include "cmd/checkpoint/find_checkpoint.h"
#include "cmd/command.h"
#include "cmd/export_checks.h"
#include "cmd/export_target.h"
#include "cmd/model_session.h"
#include "cmd/recipe/paths.h"
#include "cmd/recipe/units.h"
#include "cmd/report/hub_progress.h"
#include "cmd/run_folder.h"
#include "cmd/run_options.h"
#include "cmd/save_result.h"
#include "cmd/train/run_inputs.h"
#include "engine/format/gguf_output.h"
#include "engine/format/hf_writer.h"
#include "engine/format/model_tensors.h"

namespace ftune {
namespace {

struct Options {
  std::string source;
  std::optional<int64_t> step;
  std::string quantize;
  std::string base;
  std::vector<std::string> adapters;
  std::string out;
  std::string format = "hf";
  std::string dtype = "auto";
  std::string shard_size = "5GB";
  bool merge = false;
  bool force = false;
};

enum class FormatKind { kHf, kPeft, kGguf };
struct Format {
  FormatKind kind;
  std::string_view name;
  bool (*writes)(DType dtype);
  std::string_view types;  // for --dtype
};
constexpr Format kFormats[] = {
    {FormatKind::kHf, "hf", IsConversionTarget, "auto, fp32, bf16 or fp16"},
    {FormatKind::kPeft, "peft", [](DType dtype) { return dtype == DType::kF32; }, "auto or fp32"},
    {FormatKind::kGguf, "gguf", IsGgufOutputType, "auto, f32, f16, bf16, q8_0, q4_0 or q4_k"},
};

absl::StatusOr<const Format*> FindFormat(const std::string& name) {
  for (const Format& format : kFormats) {
    if (format.name == name) return &format;
  }
  return UsageError(
      {.file = "command line",
       .key = "--format",
       .found = name,
       .expected = "hf (a Hugging Face folder), peft (an adapter's folder) or gguf (one file)"});
}

// What is exported.
struct Source {
  std::optional<CheckpointModel> checkpoint;
  std::optional<ModelSession> own;  // where it is no checkpoint
  std::optional<int64_t> step;      // of a checkpoint
  size_t adapters = 0;

  ModelSession& session() { return checkpoint ? checkpoint->session : *own; }
};

// The type that most of the base is stored in, or that the run's own result has; what is quantised becomes
// bf16.
DType OwnType(Source& source) {
  if (source.checkpoint && source.adapters == 0) {
    return ToDType(*source.checkpoint->recipe.precision.weights);
  }
  int64_t most = -1;
  DType type = DType::kF32;
  for (const SourceTensor& tensor : source.session().loaded.files.weights->tensors()) {
    const int64_t bytes = CheckedBytes(tensor.dtype, tensor.shape).value_or(0);
    if (bytes > most) {
      most = bytes;
      type = tensor.dtype;
    }
  }
  return IsQuantized(type) ? DType::kBF16 : type;
}

absl::StatusOr<DType> OutputType(const Options& options, const Format& format, Source& source) {
  if (options.dtype == "auto") return format.kind == FormatKind::kPeft ? DType::kF32 : OwnType(source);
  const absl::StatusOr<DType> dtype = ParseDType(options.dtype);
  if (dtype.ok() && format.writes(*dtype)) return dtype;
  return UsageError({.file = "command line",
                     .key = "--dtype",
                     .found = options.dtype,
                     .expected = std::string(format.types)});
}

absl::Status CheckOptions(const Options& options, const Format& format) {
  if (!options.adapters.empty() && !options.merge) {
    return UsageError({.file = "command line",
                       .key = "--adapter",
                       .message = "an adapter can only be merged",
                       .hint = "give --merge too"});
  }
  if (options.merge && format.kind == FormatKind::kPeft) {
    return UsageError({.file = "command line",
                       .key = "--merge",
                       .message = "what is merged is no adapter any more",
                       .hint = "leave out --merge, or --format peft"});
  }
  return absl::OkStatus();
}

// What is asked for, and what there is.
absl::Status CheckAdapters(const Options& options, const Format& format, size_t adapters) {
  if (format.kind == FormatKind::kPeft) {
    if (adapters == 1) return absl::OkStatus();
    return UsageError({.file = options.source,
                       .key = "--format",
                       .message = "there is no adapter: the model itself was trained",
                       .found = "peft",
                       .expected = "hf or gguf"});
  }
  if (adapters == 0 || options.merge) return absl::OkStatus();
  return UsageError({.file = "command line",
                     .key = "--merge",
                     .message = StrCat(options.source, " is an adapter"),
                     .hint = "give --merge for a model with the adapter's change in its weights, or --format "
                             "peft for the adapter itself"});
}

// Others open an adapter with the model that it names.
absl::Status CheckPeftBase(const Options& options, const Format& format,
                           const std::optional<std::filesystem::path>& checkpoint) {
  if (format.kind != FormatKind::kPeft || !checkpoint) return absl::OkStatus();
  return DataError({.file = options.source,
                    .key = "--format",
                    .message = StrCat("the adapter was trained on the weights of the checkpoint ",
                                      checkpoint->string(), ", which no model's folder has"),
                    .found = "peft",
                    .expected = "hf or gguf, with --merge",
                    .hint = "an adapter for others needs a base that they can load: export that checkpoint, "
                            "and train on the result"});
}

// A run stands for what it made, where it has made something, or for its newest checkpoint.
bool IsOfCheckpoint(const Options& options) {
  const RunPaths run(options.source);
  return options.step || IsCheckpoint(options.source) ||
         (Exists(run.checkpoints()) && !Exists(run.model() / "config.json") &&
          !Exists(run.adapter() / "adapter_config.json"));
}

absl::StatusOr<Source> OpenCheckpoint(const Options& options, const Format& format,
                                      const HubReporter& reporter) {
  if (!options.adapters.empty() || !options.quantize.empty()) {
    const bool adapter = !options.adapters.empty();
    return UsageError(
        {.file = "command line",
         .key = adapter ? "--adapter" : "--quantize",
         .message = "a checkpoint is what its run has trained, as it was trained",
         .hint = adapter ? "export the checkpoint first, then merge into the result" : "leave it out"});
  }
  FTUNE_ASSIGN_OR_RETURN(const std::optional<CheckpointEntry> found,
                         FindCheckpoint(options.source, options.step, reporter.say));
  if (!found) return ListNamed(options.source, options.step).status();
  Source source;
  FTUNE_ASSIGN_OR_RETURN(
      source.checkpoint,
      OpenCheckpointModel(*found, {.base = options.base, .merging = options.merge}, reporter));
  source.adapters = source.session().loaded.lora ? 1 : 0;
  source.step = found->step;
  FTUNE_RETURN_IF_ERROR(CheckAdapters(options, format, source.adapters));
  FTUNE_RETURN_IF_ERROR(CheckPeftBase(options, format, source.checkpoint->base_checkpoint));
  return source;
}

// The base of a run's adapter must be what it was trained on.
absl::Status CheckBase(const RunModel& run) {
  const std::filesystem::path adapter = AbsolutePath(run.adapters.front().string());
  const RunPaths of_run(adapter.parent_path());
  if (!HasRun(of_run) || adapter != of_run.adapter()) return absl::OkStatus();
  return CheckModelInputs(run.model, run.base_checkpoint, of_run.inputs());
}

absl::StatusOr<Source> Open(const Options& options, const Format& format, const HubReporter& reporter) {
  if (IsOfCheckpoint(options)) return OpenCheckpoint(options, format, reporter);
  FTUNE_ASSIGN_OR_RETURN(RunModel run, FindRunModel(options.source, options.base, reporter));
  Source source;
  source.adapters = run.adapters.size();
  FTUNE_RETURN_IF_ERROR(CheckAdapters(options, format, source.adapters));
  FTUNE_RETURN_IF_ERROR(CheckPeftBase(options, format, run.base_checkpoint));
  if (!run.adapters.empty()) FTUNE_RETURN_IF_ERROR(CheckBase(run));
  run.adapters.insert(run.adapters.end(), options.adapters.begin(), options.adapters.end());
  source.adapters = run.adapters.size();
  const bool several = run.adapters.size() > 1;  // which are merged in memory, one after the other
  FTUNE_ASSIGN_OR_RETURN(source.own, OpenSession(run.model,
                                                 {.adapters = run.adapters,
                                                  .trained = run.trained,
                                                  .streamed = !several,
                                                  .for_merging = options.merge},
                                                 options.quantize));
  return source;
}

absl::Status Write(const Options& options, const Format& format, DType dtype, int64_t shard_bytes,
                   ModelSession& session) {
  const LoadedModel& loaded = session.loaded;
  if (format.kind == FormatKind::kPeft) {
    return WriteAdapter(loaded, AdapterTensors(*session.backend, Stream(), *loaded.model, *loaded.targets),
                        options.out);
  }
  // What GGUF quantises is summed in f32 and rounded once.
  const bool gguf = format.kind == FormatKind::kGguf;
  const std::vector<OutputTensor> tensors =
      ModelTensors(*session.backend, Stream(), *loaded.model, gguf ? DType::kF32 : dtype,
                   loaded.targets ? &*loaded.targets : nullptr);
  if (!gguf) return WriteHfModel(session.loaded.files, options.out, tensors, shard_bytes);
  FTUNE_RETURN_IF_ERROR(WriteGgufModel(session.loaded.files, options.out, tensors, dtype));
  return CheckTokenizer(*session.tokenizer, options.out);
}

// What was written, as others would open it.
absl::StatusOr<ModelSession> Reopen(const Options& options, const Format& format, const Source& source,
                                    const ModelFiles& files) {
  LoadModelOptions load = {.streamed = true};
  if (format.kind != FormatKind::kPeft) return OpenSession(options.out, load, "");
  load.adapters = {options.out};
  return OpenSession(files.path, load, source.own ? options.quantize : "");
}

std::string Describe(const Format& format, const Source& source) {
  if (format.kind == FormatKind::kPeft) return "adapter";
  if (source.adapters == 0) return "model";
  return source.adapters == 1 ? "base and adapter merged" : "base and adapters merged";
}

absl::StatusOr<CommandResult> Run(const Options& options, const Invocation& invocation) {
  FTUNE_ASSIGN_OR_RETURN(const Format* format, FindFormat(options.format));
  const std::optional<int64_t> shard_bytes = ParseSize(options.shard_size);
  if (!shard_bytes || *shard_bytes <= 0) {
    return UsageError({.file = "command line",
                       .key = "--shard-size",
                       .found = options.shard_size,
                       .expected = "a size such as 5GB or 500MB"});
  }
  FTUNE_RETURN_IF_ERROR(CheckOptions(options, *format));
  FTUNE_RETURN_IF_ERROR(CheckExportTarget(options.out, format->kind == FormatKind::kGguf, options.force));
  FTUNE_ASSIGN_OR_RETURN(Source source, Open(options, *format, HubProgress(invocation.verbosity())));
  FTUNE_ASSIGN_OR_RETURN(const DType dtype, OutputType(options, *format, source));
  ModelSession& session = source.session();
  FTUNE_RETURN_IF_ERROR(Write(options, *format, dtype, *shard_bytes, session));
  FTUNE_ASSIGN_OR_RETURN(ModelSession written, Reopen(options, *format, source, session.loaded.files));
  const std::vector<std::string> prompts =
      source.checkpoint ? source.checkpoint->recipe.train.sample_prompts : std::vector<std::string>();
  FTUNE_ASSIGN_OR_RETURN(const double difference,
                         MaxLogitDifference(session, written, prompts, dtype, options.out));

  CommandResult result{.json = {{"path", options.out}, {"max_logit_diff", difference}}};
  if (source.step) result.json["step"] = *source.step;
  result.text = StrCat(
      options.out, ": ", Describe(*format, source),
      source.step ? StrCat(" of the checkpoint of step ", *source.step) : "", ", ", std::string(Name(dtype)),
      absl::StrFormat("; largest logit difference to what was exported: %.3g\n", difference));
  return result;
}

}  // namespace

void AddExport(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("export", "What a run has trained, as others load it");
  command
      ->add_option("SOURCE", options->source,
                   "A run's or a checkpoint's folder, an adapter's folder, or a model or its hub id")
      ->required();
  command->add_option("--step", options->step,
                      "The checkpoint of the run to export (default: what the run made, or else its newest "
                      "checkpoint)");
  command->add_option("--base", options->base, "The base model, where it is not where the adapter says");
  command
      ->add_option("--adapter", options->adapters,
                   "An adapter to merge into the source; several are merged in the order given")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  AddQuantizeOption(*command, options->quantize);
  command->add_option("--out", options->out, "The folder to write, or for gguf the file")->required();
  command
      ->add_option("--format", options->format,
                   "hf (a folder), peft (an adapter's folder) or gguf (one file)")
      ->capture_default_str();
  command
      ->add_option(
          "--dtype", options->dtype,
          "auto (as the base or the run; bf16 if that is quantised), fp32, bf16, fp16; gguf also q8_0, q4_0, "
          "q4_k")
      ->capture_default_str();
  command->add_option("--shard-size", options->shard_size, "Of the safetensors files (5GB, 500MB …)")
      ->capture_default_str();
  command->add_flag("--force", options->force, "Write into a folder that has files already");
  command->add_flag("--merge", options->merge, "Merge the adapter into the base");
  command->callback([options, &invocation] {
    invocation.run = [options, &invocation] { return Run(*options, invocation); };
  });
}

}  // namespace ftune
