#include "cmd/run_options.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/strings.h"
#include "cmd/adapter_options.h"
#include "cmd/hub/resolve.h"
#include "cmd/init_from.h"
#include "cmd/launch_hosts.h"
#include "cmd/model_session.h"
#include "cmd/recipe/availability.h"
#include "cmd/recipe/resolve.h"
#include "engine/adapter/module_pattern.h"
#include "engine/format/model_config.h"
#include "engine/format/rope_reader.h"

namespace ftune {
namespace {

RowFormat ToRowFormat(const Auto<DataFormat>& format) {
  if (!format) return RowFormat::kAuto;
  switch (*format) {
    case DataFormat::kMessages:
      return RowFormat::kMessages;
    case DataFormat::kShareGpt:
      return RowFormat::kShareGpt;
    case DataFormat::kAlpaca:
      return RowFormat::kAlpaca;
    case DataFormat::kPromptCompletion:
      return RowFormat::kPromptCompletion;
    case DataFormat::kText:
      return RowFormat::kText;
    case DataFormat::kTokens:
      return RowFormat::kTokens;
    case DataFormat::kSegments:
      return RowFormat::kSegments;
  }
  return RowFormat::kAuto;
}

ExcessTokens ToExcessTokens(const Auto<ExcessLength>& strategy) {
  if (!strategy) return ExcessTokens::kAuto;
  switch (*strategy) {
    case ExcessLength::kTruncate:
      return ExcessTokens::kTruncate;
    case ExcessLength::kSplit:
      return ExcessTokens::kSplit;
    case ExcessLength::kDrop:
      return ExcessTokens::kDrop;
    case ExcessLength::kError:
      return ExcessTokens::kError;
  }
  return ExcessTokens::kAuto;
}

const char* TypeName(RopeType type) {
  switch (type) {
    case RopeType::kDefault:
      return "default";
    case RopeType::kLinear:
      return "linear";
    case RopeType::kDynamic:
      return "dynamic";
    case RopeType::kYarn:
      return "yarn";
    case RopeType::kLongRope:
      return "longrope";
    case RopeType::kLlama3:
      return "llama3";
  }
  return "default";
}

// Frozen parameters by the recipe's regular expressions, which may match any part of a name.
absl::StatusOr<std::vector<ModulePattern>> CompileFreeze(const TrainSection& train) {
  std::vector<ModulePattern> patterns;
  for (const std::string& text : train.freeze) {
    FTUNE_ASSIGN_OR_RETURN(ModulePattern pattern, ModulePattern::Compile(text));
    patterns.push_back(std::move(pattern));
  }
  return patterns;
}

RecomputePolicy ToRecomputePolicy(const ActivationCheckpointing& recipe) {
  using Mode = RecomputePolicy::Mode;
  switch (recipe.kind) {
    case ActivationCheckpointing::Kind::kNone:
      return {Mode::kNone, 1};
    case ActivationCheckpointing::Kind::kSelective:
      return {Mode::kSelective, 1};
    case ActivationCheckpointing::Kind::kFull:
      return {Mode::kEveryNth, 1};
    case ActivationCheckpointing::Kind::kEveryNth:
      return {Mode::kEveryNth, static_cast<int>(recipe.every_nth)};
  }
  return {};
}

OptimizerKind ToOptimizerKind(OptimizerName name) {
  switch (name) {
    case OptimizerName::kAdamW:
      return OptimizerKind::kAdamW;
    case OptimizerName::kSgd:
      return OptimizerKind::kSgd;
    case OptimizerName::kLion:
      return OptimizerKind::kLion;
    case OptimizerName::kAdafactor:
      return OptimizerKind::kAdafactor;
    case OptimizerName::kMuon:
      return OptimizerKind::kMuon;
    case OptimizerName::kAdamW8bit:
      return OptimizerKind::kAdamW8bit;
  }
  return OptimizerKind::kAdamW;
}

LrSchedule ToLrSchedule(LrSchedulerName name) {
  switch (name) {
    case LrSchedulerName::kConstant:
      return LrSchedule::kConstant;
    case LrSchedulerName::kLinear:
      return LrSchedule::kLinear;
    case LrSchedulerName::kCosine:
      return LrSchedule::kCosine;
  }
  return LrSchedule::kCosine;
}

Compression ToCompression(CompressionName name) {
  switch (name) {
    case CompressionName::kNone:
      return Compression::kNone;
    case CompressionName::kBf16:
      return Compression::kBf16;
    case CompressionName::kInt8:
      return Compression::kInt8;
    case CompressionName::kTopK:
      return Compression::kTopK;
    case CompressionName::kOneBit:
      return Compression::kOneBit;
  }
  return Compression::kNone;
}

// Steps between evaluations: eval_steps, or an epoch's steps cut into evals_per_epoch parts.
std::optional<int64_t> EvalSteps(const TrainSection& train, const RunLength& steps) {
  if (train.eval_steps) return train.eval_steps;
  const double per_epoch = train.evals_per_epoch.value_or(1.0);
  if (per_epoch <= 0.0 || !steps.epoch) return std::nullopt;
  return std::max<int64_t>(1, std::llround(static_cast<double>(*steps.epoch) / per_epoch));
}

}  // namespace

absl::StatusOr<Environment> EnvironmentHere(const LoadedRecipe& loaded,
                                            const std::optional<RankEnvironment>& launched) {
  Environment environment = {.cores = CpuCores(), .has_cuda = false};
  if (launched) {
    environment.ranks = launched->world_size;
    environment.ranks_per_host = launched->local_world_size;
    environment.source = launched->source;
    return environment;
  }
  FTUNE_ASSIGN_OR_RETURN(const std::vector<HostSlots> hosts, HostsOf(loaded));
  for (const HostSlots& host : hosts) environment.slots.push_back(host.slots);
  environment.slurm = KindHere(loaded) == LaunchKind::kSlurm;
  return environment;
}

absl::StatusOr<LoadedRecipe> OpenRecipe(const std::string& path, const std::vector<std::string>& overrides,
                                        const std::optional<RankEnvironment>& launched) {
  FTUNE_ASSIGN_OR_RETURN(LoadedRecipe loaded, LoadRecipe(path, overrides));
  FTUNE_RETURN_IF_ERROR(ResolveHere(loaded, launched));
  return loaded;
}

absl::Status ResolveHere(LoadedRecipe& loaded, const std::optional<RankEnvironment>& launched) {
  FTUNE_RETURN_IF_ERROR(CheckAvailable(loaded));
  FTUNE_ASSIGN_OR_RETURN(const Environment environment, EnvironmentHere(loaded, launched));
  return ResolveHere(loaded, launched, environment);
}

absl::Status ResolveHere(LoadedRecipe& loaded, const std::optional<RankEnvironment>& launched,
                         const Environment& environment) {
  FTUNE_RETURN_IF_ERROR(CheckAvailable(loaded));
  if (loaded.recipe.launch.kind == LaunchKind::kEnv && !launched) {
    ErrorDetail detail = loaded.At("launch.kind");
    detail.found = "env, but no RANK in the environment";
    detail.expected =
        "a launcher, such as torchrun, that sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and "
        "MASTER_PORT";
    detail.hint = "start ftune with one, or remove launch.kind to have ftune start the ranks";
    return UsageError(std::move(detail));
  }
  const std::optional<LaunchKind> kind = loaded.recipe.launch.kind;
  if (launched && launched->source == RankSource::kSlurm &&
      (kind == LaunchKind::kLocal || kind == LaunchKind::kSsh)) {
    ErrorDetail detail = loaded.At("launch.kind");
    detail.found = StrCat(kind == LaunchKind::kLocal ? "local" : "ssh", ", in a Slurm step of ",
                          launched->world_size, " tasks");
    detail.expected = "auto or slurm, with which each task is a rank";
    detail.hint = "remove it, or start one task";
    return UsageError(std::move(detail));
  }
  return Resolve(loaded, environment);
}

absl::StatusOr<ModelContext> ScaledContext(const LoadedRecipe& loaded, const ModelConfig& config) {
  const RopeScaling& scaling = *loaded.recipe.model.rope_scaling;
  if (!config.architecture->names.positions.empty()) {
    ErrorDetail detail = loaded.At("model.rope_scaling");
    detail.message = StrCat("a ", config.model_type, " model has no rotary positions to scale");
    return UsageError(std::move(detail));
  }
  // As config.json would have it, so that one reader knows what each kind needs.
  nlohmann::json parameters = {{"rope_type", TypeName(scaling.rope_type)}, {"factor", scaling.factor}};
  if (scaling.rope_type == RopeType::kLlama3) {
    parameters["low_freq_factor"] = scaling.low_freq_factor;
    parameters["high_freq_factor"] = scaling.high_freq_factor;
  }
  if (scaling.original_max_position_embeddings) {
    parameters["original_max_position_embeddings"] = *scaling.original_max_position_embeddings;
  }
  const RopeDefaults defaults = {
      .theta = config.rope.theta, .max_position = config.max_position, .rotary_dim = config.RotaryDim()};
  ModelContext context;
  FTUNE_ASSIGN_OR_RETURN(context.rope,
                         ReadRopeParameters(parameters, defaults, "model.rope_scaling", loaded.file));
  const int64_t trained = scaling.original_max_position_embeddings.value_or(config.max_position);
  const int64_t scaled = std::llround(static_cast<double>(trained) * scaling.factor);
  context.max_position = std::max(config.max_position, scaled);
  return context;
}

std::vector<DatasetEntry> ToEntries(const std::vector<DataSource>& sources) {
  std::vector<DatasetEntry> entries;
  for (const DataSource& source : sources) {
    entries.push_back(
        {.path = source.path,
         .format = ToRowFormat(source.format),
         .mapping = {.columns = {source.columns.begin(), source.columns.end()},
                     .roles = {source.roles.begin(), source.roles.end()}},
         .mix = {.weight = source.weight, .epochs = source.epochs, .max_samples = source.max_samples},
         .files = source.files});
  }
  return entries;
}

SampleOptions ToSampleOptions(const DataSection& data) {
  return {.train_on_inputs = data.train_on_inputs,
          .train_on_turns = data.train_on_turns == TrainedTurns::kLast ? TrainTurns::kLast : TrainTurns::kAll,
          .roles_to_train = data.roles_to_train,
          .split_turns = !data.split_turns   ? SplitTurns::kAuto
                         : *data.split_turns ? SplitTurns::kAlways
                                             : SplitTurns::kNever,
          .sequence_len = data.sequence_len,
          .excess_length_strategy = ToExcessTokens(data.excess_length_strategy),
          .truncation_side =
              data.truncation_side == TruncatedSide::kLeft ? TruncationSide::kLeft : TruncationSide::kRight};
}

AuditLimits ToAuditLimits(const AuditSection& audit) {
  return {.max_dropped_rows = audit.max_dropped_rows,
          .max_untrained_samples = audit.max_untrained_samples,
          .max_doubled_bos = audit.max_doubled_bos,
          .max_open_turns = audit.max_open_turns,
          .min_trained_tokens = audit.min_trained_tokens};
}

MeshShape ToMeshShape(const ParallelSection& parallel) {
  return {.tensor = static_cast<int>(*parallel.tensor),
          .context = static_cast<int>(*parallel.context),
          .data = static_cast<int>(*parallel.data),
          .pipeline = static_cast<int>(*parallel.pipeline)};
}

ShardOptions ToShardOptions(const ParallelSection& parallel) {
  return {
      .zero = static_cast<int>(parallel.zero),
      .shard_size = static_cast<int>(parallel.shard_size.value_or(0)),
      .bucket_bytes = parallel.bucket_size,
      .reshard_after_use = parallel.reshard_after_forward,
      .persistence_threshold = parallel.persistence_threshold,
      .compression = {.kind = ToCompression(parallel.compression), .top_share = parallel.compression_ratio}};
}

DataPlanOptions ToPlanOptions(const Recipe& recipe, int data_rank) {
  return {.seed = static_cast<uint64_t>(recipe.train.seed),
          .sequence_len = recipe.data.sequence_len,
          .packing = recipe.data.packing,
          .group_by_length = recipe.data.group_by_length,
          .mix = recipe.data.mix == DataMix::kInterleave ? MixOrder::kInterleave : MixOrder::kConcat,
          .global_batch_size = *recipe.train.global_batch_size,
          .micro_batch_size = *recipe.train.micro_batch_size,
          .rank = data_rank,
          .ranks = *recipe.parallel.data,
          .num_epochs = recipe.train.num_epochs,
          .max_steps = recipe.train.max_steps};
}

BadRows ToBadRows(OnBadRow on_bad_row) {
  return on_bad_row == OnBadRow::kSkip ? BadRows::kSkip : BadRows::kError;
}

StreamOptions ToStreamOptions(const Recipe& recipe, int data_rank) {
  return {.seed = static_cast<uint64_t>(recipe.train.seed),
          .window = {.window = recipe.data.streaming_window,
                     .capacity = recipe.data.sequence_len,
                     .packing = recipe.data.packing,
                     .global_batch_size = *recipe.train.global_batch_size},
          .slice = {.micro_batch_size = *recipe.train.micro_batch_size,
                    .rank = data_rank,
                    .ranks = *recipe.parallel.data}};
}

absl::StatusOr<ModelPlan> ToModelPlan(LoadedRecipe& loaded, const HubReporter& reporter, ModelParts parts,
                                      const std::optional<InitInCheckpoint>& init) {
  FTUNE_RETURN_IF_ERROR(ResolveModelOf(loaded, reporter, parts));
  const Recipe& recipe = loaded.recipe;
  ModelPlan plan;
  plan.model_path = recipe.model.here;
  plan.tokenizer = recipe.model.here;
  LoadModelOptions& options = plan.options;
  options.max_length = recipe.data.sequence_len;
  options.seed = static_cast<uint64_t>(recipe.train.seed);
  options.trainable_dtype = ToDType(*recipe.precision.weights);
  if (recipe.adapter) {
    options.lora = ToLoraOptions(*recipe.adapter);
    options.quantize = ToDType(*recipe.adapter->quantize);
  } else {
    FTUNE_ASSIGN_OR_RETURN(const std::vector<ModulePattern> frozen, CompileFreeze(recipe.train));
    options.trainable = [frozen](const std::string& name) {
      return std::none_of(frozen.begin(), frozen.end(),
                          [&](const ModulePattern& pattern) { return pattern.MatchesPart(name); });
    };
  }
  // A frozen base stays as it is in the file unless the recipe names a type.
  if (loaded.places.contains("precision.weights")) options.frozen_dtype = options.trainable_dtype;
  if (recipe.model.rope_scaling) {
    FTUNE_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(recipe.model.here));
    FTUNE_ASSIGN_OR_RETURN(options.context, ScaledContext(loaded, config));
  }
  if (recipe.model.init_from) {
    FTUNE_RETURN_IF_ERROR(init ? ApplyInitInCheckpoint(loaded, plan, *init)
                               : ApplyInitFrom(loaded, plan, reporter));
  }
  return plan;
}

void NameBase(const Recipe& recipe, const ModelPlan& plan, ModelFiles& files) {
  const ModelSection& model = recipe.model;
  if (plan.base_checkpoint) {
    std::error_code error;
    const std::filesystem::path absolute = std::filesystem::absolute(*plan.base_checkpoint, error);
    files.name = (error ? *plan.base_checkpoint : absolute).string();
    files.revision.clear();
    return;
  }
  if (plan.model_path != model.here || model.path == model.here) return;
  files.name = model.path;
  files.revision = model.revision.value_or("");
}

DType ToDType(WeightType type) {
  switch (type) {
    case WeightType::kFp32:
      return DType::kF32;
    case WeightType::kBf16:
      return DType::kBF16;
    case WeightType::kFp16:
      return DType::kF16;
  }
  return DType::kF32;
}

OptimizerOptions ToOptimizerOptions(const Recipe& recipe) {
  const OptimizerSection& optimizer = recipe.optimizer;
  const auto number = [](const Auto<double>& value) { return static_cast<float>(value.value_or(0.0)); };
  return {.kind = ToOptimizerKind(optimizer.name),
          .beta1 = number(optimizer.beta1),
          .beta2 = number(optimizer.beta2),
          .eps = number(optimizer.eps),
          .momentum = number(optimizer.momentum),
          .muon_scale =
              optimizer.adjust_lr == AdjustLr::kOriginal ? MuonScale::kOriginal : MuonScale::kMatchRmsAdamW,
          .weight_decay = static_cast<float>(optimizer.weight_decay),
          .master = recipe.precision.master == MasterWeights::kFp32,
          .seed = static_cast<uint64_t>(recipe.train.seed)};
}

TrainerOptions ToTrainerOptions(const Recipe& recipe, const RunLength& steps) {
  const OptimizerSection& optimizer = recipe.optimizer;
  TrainerOptions options;
  options.step.seed = static_cast<uint64_t>(recipe.train.seed);
  options.step.max_grad_norm = std::nullopt;
  if (optimizer.max_grad_norm) options.step.max_grad_norm = static_cast<float>(*optimizer.max_grad_norm);
  options.step.label_smoothing = static_cast<float>(recipe.train.label_smoothing);
  options.step.neftune_alpha = static_cast<float>(recipe.train.neftune_noise_alpha.value_or(0.0));
  options.early_stopping_patience = recipe.train.early_stopping_patience;
  options.step.recompute = ToRecomputePolicy(recipe.memory.activation_checkpointing);
  if (recipe.precision.weights == WeightType::kFp16) {
    options.step.loss_scaler = LossScalerOptions{.constant = recipe.precision.loss_scale};
  }

  LrOptions& rate = options.learning_rate;
  rate.schedule = ToLrSchedule(optimizer.lr_scheduler);
  rate.peak = *optimizer.learning_rate;
  rate.min_ratio = optimizer.min_lr_ratio;
  rate.total_steps = steps.total;
  rate.warmup_steps = optimizer.warmup_steps ? *optimizer.warmup_steps
                                             : WarmupSteps(optimizer.warmup_ratio.value_or(0.0), steps.total);
  options.eval_steps = EvalSteps(recipe.train, steps);
  options.eval_on_start = recipe.train.eval_on_start;
  options.report_every = recipe.log.every;
  return options;
}

}  // namespace ftune
