// ftune export RUN|ADAPTER: the merged model, or the model in another type or shard size.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>

#include "base/convert.h"
#include "base/error.h"
#include "base/strings.h"
#include "cmd/command.h"
#include "cmd/model_session.h"
#include "cmd/recipe/units.h"
#include "cmd/report/hub_progress.h"
#include "cmd/run_folder.h"
#include "engine/format/gguf_output.h"
#include "engine/format/hf_writer.h"
#include "engine/format/model_tensors.h"
#include "engine/train/generate.h"

namespace ftune {
namespace {

struct Options {
  std::string source;
  std::string quantize;
  std::string base;
  std::vector<std::string> adapters;
  std::string out;
  std::string format = "hf";
  std::string dtype = "auto";
  std::string shard_size = "5GB";
  bool merge = false;
};

struct Format {
  std::string_view name;
  bool (*writes)(DType dtype);
  std::string_view types;  // for --dtype
};
constexpr Format kFormats[] = {
    {"hf", IsConversionTarget, "auto, fp32, bf16 or fp16"},
    {"gguf", IsGgufOutputType, "auto, f32, f16, bf16, q8_0, q4_0 or q4_k"},
};

absl::StatusOr<const Format*> FindFormat(const std::string& name) {
  for (const Format& format : kFormats) {
    if (format.name == name) return &format;
  }
  return UsageError({.file = "command line",
                     .key = "--format",
                     .found = name,
                     .expected = "hf (a Hugging Face folder) or gguf (one file)"});
}

// The type that most of the base is stored in; what is quantised becomes bf16.
absl::StatusOr<DType> OutputType(const Options& options, const Format& format, const ModelFiles& files) {
  if (options.dtype != "auto") {
    const absl::StatusOr<DType> dtype = ParseDType(options.dtype);
    if (dtype.ok() && format.writes(*dtype)) return dtype;
    return UsageError({.file = "command line",
                       .key = "--dtype",
                       .found = options.dtype,
                       .expected = std::string(format.types)});
  }
  const SourceTensor* largest = nullptr;
  for (const SourceTensor& tensor : files.weights->tensors()) {
    if (largest == nullptr || tensor.bytes.size() > largest->bytes.size()) largest = &tensor;
  }
  return IsQuantized(largest->dtype) ? DType::kBF16 : largest->dtype;
}

// Some real text for comparing logits; its content does not matter.
constexpr char kProbe[] = "The quick brown fox jumps over the lazy dog. 12345 + 67890 = 80235.\n";
constexpr const char* kTokenizerProbes[] = {
    kProbe, "It's 1999's  don't-care:\t\"x\"\n\n  if (a != b) { return 3.14; }",
    " Grüße aus Zürich – 東京は晴れ。 Привет, мир! 🙂👍🏽"};

// A tokenizer that splits text in another way than the model learned would make the model useless: one that
// was written in another form than it was read is tried.
absl::Status CheckTokenizer(const Tokenizer& own, const std::filesystem::path& written) {
  FTUNE_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> other, LoadTokenizer(written));
  for (const char* text : kTokenizerProbes) {
    const std::vector<int32_t> want = own.Encode(text).ids, got = other->Encode(text).ids;
    if (want == got) continue;
    return DataError({.file = written.string(),
                      .key = "tokenizer",
                      .message = StrCat("the tokenizer that was written splits ", text, " in another way"),
                      .found = StrCat("ids ", StrJoin(got, " ")),
                      .expected = StrCat("ids ", StrJoin(want, " ")),
                      .hint = "the file is of no use and can be removed; export with --format hf"});
  }
  return absl::OkStatus();
}

// The largest difference between the logits of the model with its adapter and those of what was just
// written.
absl::StatusOr<double> MaxLogitDifference(ModelSession& session, const std::filesystem::path& written) {
  std::vector<int32_t> ids = session.tokenizer->Encode(kProbe).ids;
  const ModelConfig& config = session.loaded.files.config;
  std::erase_if(ids, [&](int32_t id) { return id >= config.vocab_size; });
  // The model has no more positions than its context.
  ids.resize(std::min(ids.size(), static_cast<size_t>(config.LongestText())));
  const std::vector<float> want = AllLogits(*session.backend, Stream(), *session.loaded.model, ids);
  FTUNE_ASSIGN_OR_RETURN(ModelSession merged, OpenSession(written, {}, ""));
  const std::vector<float> got = AllLogits(*merged.backend, Stream(), *merged.loaded.model, ids);
  double worst = 0.0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - want[i]);
    if (!std::isfinite(difference)) {
      return UserError(
          ExitCode::kNotFinite,
          {.file = written.string(),
           .message = "the logits of what was written, or of its source, are not finite",
           .hint = "a weight is too large for --dtype fp16, or the source is broken: try --dtype bf16"});
    }
    worst = std::max(worst, difference);
  }
  return worst;
}

absl::Status Write(const Options& options, const Format& format, DType dtype, int64_t shard_bytes,
                   ModelSession& session) {
  const bool gguf = format.name == "gguf";
  // What GGUF quantises is summed in f32 and rounded once.
  const LoadedModel& loaded = session.loaded;
  const std::vector<OutputTensor> tensors =
      ModelTensors(*session.backend, Stream(), *loaded.model, gguf ? DType::kF32 : dtype,
                   loaded.targets ? &*loaded.targets : nullptr);
  if (!gguf) return WriteHfModel(session.loaded.files, options.out, tensors, shard_bytes);
  FTUNE_RETURN_IF_ERROR(WriteGgufModel(session.loaded.files, options.out, tensors, dtype));
  return CheckTokenizer(*session.tokenizer, options.out);
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
  FTUNE_ASSIGN_OR_RETURN(RunModel run,
                         FindRunModel(options.source, options.base, HubProgress(invocation.verbosity())));
  if (!options.adapters.empty() && !options.merge) {
    return UsageError({.file = "command line",
                       .key = "--adapter",
                       .message = "an adapter can only be merged",
                       .hint = "give --merge too"});
  }
  if (!run.adapters.empty() && !options.merge) {
    return UsageError({.file = "command line",
                       .key = "--merge",
                       .message = StrCat(options.source, " is an adapter, which is in PEFT's format already"),
                       .hint = "give --merge for a model with the adapter's change in its weights"});
  }
  run.adapters.insert(run.adapters.end(), options.adapters.begin(), options.adapters.end());
  FTUNE_ASSIGN_OR_RETURN(
      ModelSession session,
      OpenSession(run.model, {.adapters = run.adapters, .for_merging = true}, options.quantize));
  FTUNE_ASSIGN_OR_RETURN(const DType dtype, OutputType(options, *format, session.loaded.files));
  FTUNE_RETURN_IF_ERROR(Write(options, *format, dtype, *shard_bytes, session));
  FTUNE_ASSIGN_OR_RETURN(const double difference, MaxLogitDifference(session, options.out));

  if (!invocation.json) {
    std::printf("%s: %s, %s; largest logit difference to what was exported: %.3g\n", options.out.c_str(),
                run.adapters.empty()       ? "model"
                : run.adapters.size() == 1 ? "base and adapter merged"
                                           : "base and adapters merged",
                std::string(Name(dtype)).c_str(), difference);
  }
  return CommandResult{.json = {{"path", options.out}, {"max_logit_diff", difference}}};
}

}  // namespace

void AddExport(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("export", "A run's result as a model that others load");
  command
      ->add_option("SOURCE", options->source, "A run's folder, an adapter's folder, or a model or its hub id")
      ->required();
  command->add_option("--base", options->base, "The base model, where it is not where the adapter says");
  command
      ->add_option("--adapter", options->adapters,
                   "An adapter to merge into the source; several are merged in the order given")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  AddQuantizeOption(*command, options->quantize);
  command->add_option("--out", options->out, "The folder to write, or for gguf the file")->required();
  command->add_option("--format", options->format, "hf (a folder) or gguf (one file)")->capture_default_str();
  command
      ->add_option(
          "--dtype", options->dtype,
          "auto (as the base; bf16 if that is quantised), fp32, bf16, fp16; gguf also q8_0, q4_0, q4_k")
      ->capture_default_str();
  command->add_option("--shard-size", options->shard_size, "Of the safetensors files (5GB, 500MB …)")
      ->capture_default_str();
  command->add_flag("--merge", options->merge, "Merge the adapter into the base");
  command->callback([options, &invocation] {
    invocation.run = [options, &invocation] { return Run(*options, invocation); };
  });
}

}  // namespace ftune
