// A recipe: everything a run is told, as plain values. What each key means, accepts and is called in YAML
// stands in keys.cc; the initial values here are the defaults.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ftune {

// Empty while the recipe says `auto`; Resolve fills it in.
template <class T>
using Auto = std::optional<T>;

enum class AdapterKind { kLora, kQlora };
enum class Quantization { kNone, kNf4, kFp4, kInt8 };
enum class DataFormat { kMessages, kShareGpt, kAlpaca, kPromptCompletion, kText, kTokens, kSegments };
enum class ExcessLength { kTruncate, kSplit, kDrop, kError };
enum class OnBadRow { kError, kSkip };
enum class TrainedTurns { kAll, kLast };
enum class TruncatedSide { kRight, kLeft };
enum class DataMix { kConcat, kInterleave };
enum class OptimizerName { kAdamW, kSgd, kLion, kAdafactor, kMuon, kAdamW8bit };
enum class AdjustLr { kMatchRmsAdamW, kOriginal };
enum class LrSchedulerName { kConstant, kLinear, kCosine };
enum class WeightType { kFp32, kBf16, kFp16 };
enum class MasterWeights { kFp32, kNone };
enum class GradientType { kFp32 };
enum class CompressionName { kNone, kBf16, kInt8, kTopK, kOneBit };
enum class Offload { kNone, kOptimizer, kParameters };
enum class LaunchKind { kLocal, kSsh, kSlurm, kEnv };
enum class DeviceKind { kCpu, kCuda };
enum class RopeType { kDefault, kLinear, kDynamic, kYarn, kLongRope, kLlama3 };

// A share below 1, or a count. Both 0: none.
struct CountOrShare {
  int64_t count = 0;
  double share = 0.0;

  bool empty() const { return count == 0 && share == 0.0; }
  bool operator==(const CountOrShare&) const = default;
};

// Which layers an adapter sits on: all linear ones, those whose name ends with one of the list, or those
// whose whole name matches a regular expression.
struct TargetModules {
  enum class Kind { kAllLinear, kNames, kRegex };
  Kind kind = Kind::kAllLinear;
  std::vector<std::string> names;  // kNames
  std::string regex;               // kRegex

  bool operator==(const TargetModules&) const = default;
};

struct ActivationCheckpointing {
  enum class Kind { kNone, kFull, kSelective, kEveryNth };
  Kind kind = Kind::kNone;
  int64_t every_nth = 0;  // kEveryNth: blocks

  bool operator==(const ActivationCheckpointing&) const = default;
};

struct DataSource {
  std::string path;
  std::optional<std::string> name;  // a subset, a split and a revision: of a dataset of the hub only
  std::optional<std::string> split;
  std::optional<std::string> revision;
  Auto<DataFormat> format;  // stays empty: told from the data
  double weight = 1.0;
  std::optional<double> epochs;
  std::optional<int64_t> max_samples;
  std::vector<std::pair<std::string, std::string>> columns;  // by our name: the dataset's
  std::vector<std::pair<std::string, std::string>> roles;    // by the dataset's name: ours
  std::vector<std::string> files;  // no key: of a dataset of the hub its files here, once they are known

  bool operator==(const DataSource&) const = default;
};

struct Host {
  std::string host;
  std::optional<int64_t> slots;

  bool operator==(const Host&) const = default;
};

struct RopeScaling {
  RopeType rope_type = RopeType::kDefault;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  std::optional<int64_t> original_max_position_embeddings;

  bool operator==(const RopeScaling&) const = default;
};

struct ModelSection {
  std::string path;
  std::optional<std::string> revision;  // of a model of the hub
  std::optional<std::string> init_from;
  std::vector<std::string> added_tokens;
  std::optional<RopeScaling> rope_scaling;
  std::string here;  // no key: where `path` is on this disk, once it is known

  bool operator==(const ModelSection&) const = default;
};

struct AdapterSection {
  AdapterKind kind = AdapterKind::kLora;
  Auto<Quantization> quantize;
  int64_t lora_r = 16;
  Auto<double> lora_alpha;
  double lora_dropout = 0.0;
  TargetModules target_modules;
  std::vector<std::pair<std::string, int64_t>> rank_pattern;  // by regular expression of a module's name
  std::vector<std::pair<std::string, double>> alpha_pattern;
  std::vector<std::string> modules_to_save;
  bool use_rslora = false;
  bool use_dora = false;
  std::optional<double> loraplus_lr_ratio;
  Auto<double> loraplus_lr_embedding;  // Resolve fills it in where there is a ratio

  bool operator==(const AdapterSection&) const = default;
};

// Shares, each a limit that stops a run.
struct AuditSection {
  double max_dropped_rows = 0.5;
  double max_untrained_samples = 0.5;
  double max_doubled_bos = 0.0;
  double max_open_turns = 0.5;
  double min_trained_tokens = 0.001;

  bool operator==(const AuditSection&) const = default;
};

struct DataSection {
  std::vector<DataSource> train;
  std::vector<DataSource> eval;
  CountOrShare val_set_size;
  Auto<std::string> chat_template;  // stays empty: the tokenizer's own
  nlohmann::ordered_json chat_template_kwargs = nlohmann::ordered_json::object();
  Auto<bool> split_turns;  // stays empty: where the template writes a turn otherwise later
  bool train_on_inputs = false;
  TrainedTurns train_on_turns = TrainedTurns::kAll;
  std::vector<std::string> roles_to_train = {"assistant"};
  int64_t sequence_len = 2048;
  Auto<ExcessLength> excess_length_strategy;  // stays empty: by each row's format
  TruncatedSide truncation_side = TruncatedSide::kRight;
  bool packing = true;
  bool group_by_length = false;
  DataMix mix = DataMix::kConcat;
  bool streaming = false;
  OnBadRow on_bad_row = OnBadRow::kError;
  int64_t streaming_window = 8192;
  Auto<std::string> prepared_path;  // stays empty: the user's cache
  AuditSection audit;

  bool has_evaluation() const { return !eval.empty() || !val_set_size.empty(); }
  bool operator==(const DataSection&) const = default;
};

struct TrainSection {
  Auto<int64_t> global_batch_size;
  Auto<int64_t> micro_batch_size;
  Auto<int64_t> gradient_accumulation_steps;
  double num_epochs = 1.0;
  std::optional<int64_t> max_steps;
  std::optional<int64_t> eval_steps;
  std::optional<double> evals_per_epoch;
  bool eval_on_start = true;
  std::optional<int64_t> early_stopping_patience;
  std::vector<std::string> sample_prompts;
  int64_t sample_max_new_tokens = 64;
  std::vector<std::string> freeze;  // regular expressions on parameter names
  std::optional<double> neftune_noise_alpha;
  double label_smoothing = 0.0;
  int64_t seed = 42;

  bool operator==(const TrainSection&) const = default;
};

// Which numbers an optimizer has. Muon's betas and eps are those of the AdamW beside it.
inline bool HasEps(OptimizerName name) {
  return name == OptimizerName::kAdamW || name == OptimizerName::kAdamW8bit || name == OptimizerName::kMuon;
}
inline bool HasBetas(OptimizerName name) { return HasEps(name) || name == OptimizerName::kLion; }
inline bool HasMomentum(OptimizerName name) {
  return name == OptimizerName::kSgd || name == OptimizerName::kMuon;
}

struct OptimizerSection {
  OptimizerName name = OptimizerName::kAdamW;
  Auto<double> learning_rate;
  Auto<double> beta1;  // these four stay empty where the optimizer has no such number
  Auto<double> beta2;
  Auto<double> eps;
  Auto<double> momentum;
  AdjustLr adjust_lr = AdjustLr::kMatchRmsAdamW;
  double weight_decay = 0.0;
  LrSchedulerName lr_scheduler = LrSchedulerName::kCosine;
  double min_lr_ratio = 0.0;
  std::optional<double> warmup_ratio;  // Resolve leaves exactly one of the two
  std::optional<int64_t> warmup_steps;
  std::optional<double> max_grad_norm = 1.0;

  bool operator==(const OptimizerSection&) const = default;
};

struct PrecisionSection {
  Auto<WeightType> weights;
  MasterWeights master = MasterWeights::kFp32;
  GradientType gradients = GradientType::kFp32;
  std::optional<double> loss_scale;  // empty: dynamic

  bool operator==(const PrecisionSection&) const = default;
};

struct ParallelSection {
  Auto<int64_t> data;
  Auto<int64_t> tensor = 1;
  Auto<int64_t> pipeline = 1;
  Auto<int64_t> context = 1;
  int64_t zero = 0;
  Auto<int64_t> shard_size;                 // stays empty where nothing is sharded
  int64_t bucket_size = 25'000'000;         // bytes
  int64_t persistence_threshold = 100'000;  // elements
  bool reshard_after_forward = true;
  bool sequence_parallel = false;
  std::string schedule = "1f1b";  // a schedule's name, or a .csv file
  int64_t virtual_stages = 1;
  Auto<std::vector<int64_t>> stages;  // layers of each stage; stays empty: balanced when the model is known
  CompressionName compression = CompressionName::kNone;
  double compression_ratio = 0.01;  // of the elements that topk sends

  bool operator==(const ParallelSection&) const = default;
};

struct MemorySection {
  ActivationCheckpointing activation_checkpointing;
  Offload offload = Offload::kNone;

  bool operator==(const MemorySection&) const = default;
};

enum class WhenBusy { kWait, kSkip };

struct CheckpointSection {
  Auto<int64_t> save_steps;  // stays empty: by the clock
  std::optional<double> saves_per_epoch;
  int64_t keep_last = 2;
  bool keep_best = false;
  std::optional<int64_t> keep_every;  // steps
  bool async = true;
  WhenBusy when_busy = WhenBusy::kWait;
  std::optional<double> stop_after;  // seconds

  bool operator==(const CheckpointSection&) const = default;
};

struct LogSection {
  int64_t every = 1;
  bool tensorboard = false;
  std::optional<std::string> hook;
  std::optional<int64_t> trace_step;
  std::optional<int64_t> metrics_port;
  std::string metrics_address = "127.0.0.1";

  bool operator==(const LogSection&) const = default;
};

struct SlurmSection {
  std::optional<std::string> partition;
  std::optional<std::string> account;
  std::optional<std::string> time;  // as Slurm writes it
  int64_t nodes = 1;
  std::optional<int64_t> gpus_per_node;
  std::optional<std::string> constraint;
  std::vector<std::string> extra;

  bool operator==(const SlurmSection&) const = default;
};

struct LaunchSection {
  Auto<LaunchKind> kind;
  Auto<DeviceKind> device;
  std::vector<Host> hosts;
  std::optional<std::string> hostfile;
  std::optional<std::string> include;  // as FilterHosts has it
  std::optional<std::string> exclude;
  std::optional<std::string> program;  // on other hosts
  bool copy_program = false;           // to those that do not have this one
  bool tls = false;
  Auto<int64_t> ranks_per_host;
  Auto<int64_t> threads;  // per rank
  int64_t max_restarts = 3;
  std::optional<int64_t> min_hosts;
  std::optional<int64_t> max_hosts;
  double start_timeout = 30 * 60;      // seconds
  double step_timeout = 10 * 60;       // seconds
  double heartbeat_timeout = 30;       // seconds
  std::optional<double> hang_timeout;  // seconds
  bool exclude_stragglers = false;
  SlurmSection slurm;

  bool operator==(const LaunchSection&) const = default;
};

struct Recipe {
  Auto<std::string> output_dir;
  ModelSection model;
  std::optional<AdapterSection> adapter;  // empty: full fine-tuning
  DataSection data;
  TrainSection train;
  OptimizerSection optimizer;
  PrecisionSection precision;
  ParallelSection parallel;
  MemorySection memory;
  CheckpointSection checkpoint;
  LogSection log;
  LaunchSection launch;

  bool operator==(const Recipe&) const = default;
};

}  // namespace ftune
