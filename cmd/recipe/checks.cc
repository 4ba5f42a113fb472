#include "cmd/recipe/checks.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "engine/adapter/module_pattern.h"
#include "parallel/schedule/schedule.h"

namespace ftune {
namespace {

// A combination of keys that is refused. The error stands at the first of them.
struct Rule {
  std::vector<std::string> keys;
  bool (*broken)(const Recipe&);
  std::string message;
  std::string hint;
};

// Whether parallel.virtual_stages may be above 1 and what it is. A file is asked when it is read.
bool HasStages(const ParallelSection& parallel) {
  const std::optional<ScheduleKind> kind = FindScheduleKind(parallel.schedule);
  return !kind || (ChunksOf(*kind) == 0 || ChunksOf(*kind) == parallel.virtual_stages);
}

bool AnySource(const std::vector<DataSource>& sources, bool (*holds)(const DataSource&)) {
  return std::any_of(sources.begin(), sources.end(), holds);
}

std::vector<Rule> Rules() {
  return {
      {{"optimizer.warmup_steps", "optimizer.warmup_ratio"},
       [](const Recipe& r) { return r.optimizer.warmup_steps && r.optimizer.warmup_ratio; },
       "given together with optimizer.warmup_ratio",
       "keep one, or set the other to null"},
      {{"data.val_set_size", "data.eval"},
       [](const Recipe& r) { return !r.data.val_set_size.empty() && !r.data.eval.empty(); },
       "given together with data.eval",
       "keep one: data of its own, or a part of the training data"},
      {{"data.group_by_length", "data.packing"},
       [](const Recipe& r) { return r.data.group_by_length && r.data.packing; },
       "has no effect with data.packing, whose packs are all of one length",
       "set packing: false, or remove it"},
      {{"data.truncation_side", "data.excess_length_strategy"},
       [](const Recipe& r) {
         return r.data.truncation_side == TruncatedSide::kLeft &&
                r.data.excess_length_strategy != ExcessLength::kTruncate;
       },
       "has no effect without data.excess_length_strategy: truncate",
       "set that, or remove it"},
      {{"data.split_turns", "data.train_on_inputs"},
       [](const Recipe& r) { return r.data.split_turns && r.data.train_on_inputs; },
       "has no effect with data.train_on_inputs: true, which learns each conversation as a whole",
       "remove one of them"},
      {{"data.mix", "data.train"},
       [](const Recipe& r) { return r.data.mix == DataMix::kInterleave && r.data.train.size() == 1; },
       "has no effect with one dataset",
       "remove it, or name several in data.train"},
      {{"data.train"},
       [](const Recipe& r) {
         return AnySource(r.data.train, [](const DataSource& s) { return s.epochs && *s.epochs < s.weight; });
       },
       "an entry has a weight above its epochs: one epoch would take each of its samples more often than the "
       "whole run may",
       "lower the weight, or raise the entry's epochs"},
      {{"data.eval"},
       [](const Recipe& r) {
         return AnySource(r.data.eval, [](const DataSource& s) { return s.epochs || s.weight != 1.0; });
       },
       "an entry has a weight or epochs, but evaluation takes each sample once",
       "remove them"},
      {{"data.streaming", "train.max_steps"},
       [](const Recipe& r) { return r.data.streaming && !r.train.max_steps; },
       "without train.max_steps nobody knows when to end, or how to lower the learning rate",
       "set train.max_steps"},
      {{"data.streaming", "train.num_epochs"},
       [](const Recipe& r) { return r.data.streaming && r.train.num_epochs != 1.0; },
       "train.num_epochs has no effect with it: train.max_steps says when to end",
       "remove train.num_epochs"},
      {{"data.streaming", "data.val_set_size"},
       [](const Recipe& r) { return r.data.streaming && !r.data.val_set_size.empty(); },
       "data.val_set_size cannot be taken from data that is read while training",
       "name data of its own in data.eval"},
      {{"data.streaming_window", "data.streaming"},
       [](const Recipe& r) {
         return !r.data.streaming && r.data.streaming_window != DataSection().streaming_window;
       },
       "has no effect without data.streaming",
       "remove it"},
      {{"data.streaming", "data.mix"},
       [](const Recipe& r) {
         return r.data.streaming && r.data.mix == DataMix::kConcat &&
                AnySource(r.data.train, [](const DataSource& s) { return s.weight != 1.0; });
       },
       "an entry's weight has no effect with data.mix: concat, which streams one entry after the other",
       "set data.mix: interleave, or remove the weights"},
      {{"data.streaming", "data.group_by_length"},
       [](const Recipe& r) { return r.data.streaming && r.data.group_by_length; },
       "data.group_by_length needs all lengths beforehand",
       "remove one of them"},
      {{"data.streaming", "train.evals_per_epoch"},
       [](const Recipe& r) { return r.data.streaming && r.train.evals_per_epoch; },
       "with it nobody knows how long an epoch is, which train.evals_per_epoch needs",
       "set train.eval_steps instead"},
      {{"data.streaming", "data.train"},
       [](const Recipe& r) {
         return r.data.streaming &&
                AnySource(r.data.train, [](const DataSource& s) { return s.epochs || s.max_samples; });
       },
       "an entry's epochs and max_samples need all of its rows beforehand",
       "remove them, or data.streaming"},
      {{"train.evals_per_epoch", "train.eval_steps"},
       [](const Recipe& r) { return r.train.evals_per_epoch && r.train.eval_steps; },
       "given together with train.eval_steps",
       "keep one, or set the other to null"},
      {{"checkpoint.saves_per_epoch", "checkpoint.save_steps"},
       [](const Recipe& r) { return r.checkpoint.saves_per_epoch && r.checkpoint.save_steps; },
       "given together with checkpoint.save_steps",
       "keep one, or set save_steps to auto or saves_per_epoch to null"},
      {{"launch.hostfile", "launch.hosts"},
       [](const Recipe& r) { return r.launch.hostfile && !r.launch.hosts.empty(); },
       "given together with launch.hosts",
       "keep one"},
      {{"launch.min_hosts", "launch.max_hosts"},
       [](const Recipe& r) {
         return r.launch.min_hosts && r.launch.max_hosts && *r.launch.min_hosts > *r.launch.max_hosts;
       },
       "it is more than launch.max_hosts",
       "lower it, or raise launch.max_hosts"},
      {{"launch.include", "launch.hosts", "launch.hostfile"},
       [](const Recipe& r) { return r.launch.include && r.launch.hosts.empty() && !r.launch.hostfile; },
       "there are no hosts to choose from",
       "add launch.hosts or launch.hostfile, or remove it"},
      {{"launch.exclude", "launch.hosts", "launch.hostfile"},
       [](const Recipe& r) { return r.launch.exclude && r.launch.hosts.empty() && !r.launch.hostfile; },
       "there are no hosts to choose from",
       "add launch.hosts or launch.hostfile, or remove it"},
      {{"launch.tls", "launch.hosts", "launch.hostfile"},
       [](const Recipe& r) { return r.launch.tls && r.launch.hosts.empty() && !r.launch.hostfile; },
       "there are no hosts that meet over a network, or whoever starts the ranks serves their rendezvous",
       "add launch.hosts or launch.hostfile, or remove it"},
      {{"launch.kind", "launch.hosts", "launch.hostfile"},
       [](const Recipe& r) {
         return r.launch.kind == LaunchKind::kSsh && r.launch.hosts.empty() && !r.launch.hostfile;
       },
       "no hosts are named",
       "add launch.hosts or launch.hostfile"},
      {{"train.eval_steps", "data.eval", "data.val_set_size"},
       [](const Recipe& r) { return r.train.eval_steps && !r.data.has_evaluation(); },
       "there is no evaluation data",
       "add data.eval or data.val_set_size, or set eval_steps to null"},
      {{"train.evals_per_epoch", "data.eval", "data.val_set_size"},
       [](const Recipe& r) { return r.train.evals_per_epoch && !r.data.has_evaluation(); },
       "there is no evaluation data",
       "add data.eval or data.val_set_size, or set evals_per_epoch to null"},
      {{"train.early_stopping_patience", "data.eval", "data.val_set_size"},
       [](const Recipe& r) { return r.train.early_stopping_patience && !r.data.has_evaluation(); },
       "there is no evaluation data",
       "add data.eval or data.val_set_size"},
      {{"train.sample_prompts", "data.eval", "data.val_set_size"},
       [](const Recipe& r) { return !r.train.sample_prompts.empty() && !r.data.has_evaluation(); },
       "there is no evaluation data, and prompts are answered at evaluations",
       "add data.eval or data.val_set_size"},
      {{"adapter.quantize", "adapter.kind"},
       [](const Recipe& r) {
         return r.adapter && r.adapter->kind == AdapterKind::kQlora &&
                r.adapter->quantize == Quantization::kNone;
       },
       "found none with kind: qlora, which is lora on quantised weights",
       "write kind: lora, or leave quantize out"},
      {{"train.freeze", "adapter.target_modules"},
       [](const Recipe& r) { return r.adapter && !r.train.freeze.empty(); },
       "found patterns, in a recipe with an adapter, whose base is frozen already",
       "remove it; adapter.target_modules says what the adapter sits on"},
      {{"adapter.loraplus_lr_embedding", "adapter.loraplus_lr_ratio"},
       [](const Recipe& r) {
         return r.adapter && r.adapter->loraplus_lr_embedding && !r.adapter->loraplus_lr_ratio;
       },
       "has no effect without adapter.loraplus_lr_ratio",
       "set that, or remove it"},
      {{"model.rope_scaling.factor", "model.rope_scaling.rope_type"},
       [](const Recipe& r) {
         const std::optional<RopeScaling>& rope = r.model.rope_scaling;
         return rope && (rope->rope_type == RopeType::kDefault) != (rope->factor == 1.0);
       },
       "a factor above 1 and a rope_type other than default belong together",
       "give both"},
      {{"model.rope_scaling.rope_type", "adapter.kind"},
       [](const Recipe& r) { return r.model.rope_scaling && r.adapter; },
       "PEFT's adapters have no place for it, and would be used without",
       "set it in the model's config.json, or fine-tune in full"},
      {{"optimizer.min_lr_ratio", "optimizer.lr_scheduler"},
       [](const Recipe& r) {
         return r.optimizer.min_lr_ratio > 0 && r.optimizer.lr_scheduler == LrSchedulerName::kConstant;
       },
       "has no effect with lr_scheduler: constant",
       "choose cosine or linear, or remove it"},
      {{"optimizer.beta1", "optimizer.name"},
       [](const Recipe& r) { return r.optimizer.beta1 && !HasBetas(r.optimizer.name); },
       "has no effect with this optimizer.name",
       "choose adamw, adamw_8bit, lion or muon, or remove it"},
      {{"optimizer.beta2", "optimizer.name"},
       [](const Recipe& r) { return r.optimizer.beta2 && !HasBetas(r.optimizer.name); },
       "has no effect with this optimizer.name",
       "choose adamw, adamw_8bit, lion or muon, or remove it"},
      {{"optimizer.eps", "optimizer.name"},
       [](const Recipe& r) { return r.optimizer.eps && !HasEps(r.optimizer.name); },
       "has no effect with this optimizer.name",
       "choose adamw, adamw_8bit or muon, or remove it"},
      {{"optimizer.momentum", "optimizer.name"},
       [](const Recipe& r) { return r.optimizer.momentum && !HasMomentum(r.optimizer.name); },
       "has no effect with this optimizer.name",
       "choose sgd or muon, or remove it"},
      {{"optimizer.adjust_lr", "optimizer.name"},
       [](const Recipe& r) {
         return r.optimizer.adjust_lr == AdjustLr::kOriginal && r.optimizer.name != OptimizerName::kMuon;
       },
       "has no effect without optimizer.name: muon",
       "remove it"},
      {{"precision.master", "precision.weights"},
       [](const Recipe& r) {
         return r.precision.master == MasterWeights::kNone && r.precision.weights != WeightType::kBf16;
       },
       "found none without precision.weights: bf16, the one type that is trained without a master copy",
       "set precision.weights: bf16, or remove it"},
      {{"precision.loss_scale", "precision.weights"},
       [](const Recipe& r) { return r.precision.loss_scale && r.precision.weights != WeightType::kFp16; },
       "has no effect without precision.weights: fp16",
       "remove it"},
      {{"parallel.shard_size", "parallel.zero"},
       [](const Recipe& r) { return r.parallel.shard_size && r.parallel.zero == 0; },
       "has no effect without parallel.zero above 0",
       "set parallel.zero, or remove it"},
      {{"parallel.reshard_after_forward", "parallel.zero"},
       [](const Recipe& r) { return !r.parallel.reshard_after_forward && r.parallel.zero != 3; },
       "has no effect without parallel.zero: 3",
       "set parallel.zero, or remove it"},
      {{"parallel.schedule", "parallel.pipeline"},
       [](const Recipe& r) {
         return r.parallel.schedule != ParallelSection().schedule && r.parallel.pipeline == 1;
       },
       "has no effect without parallel.pipeline above 1",
       "set parallel.pipeline, or remove it"},
      {{"parallel.virtual_stages", "parallel.pipeline"},
       [](const Recipe& r) { return r.parallel.virtual_stages != 1 && r.parallel.pipeline == 1; },
       "has no effect without parallel.pipeline above 1",
       "set parallel.pipeline, or remove it"},
      {{"parallel.stages", "parallel.pipeline"},
       [](const Recipe& r) { return r.parallel.stages && r.parallel.pipeline == 1; },
       "has no effect without parallel.pipeline above 1",
       "set parallel.pipeline, or remove it"},
      {{"parallel.schedule", "parallel.virtual_stages"},
       [](const Recipe& r) {
         return r.parallel.schedule == "interleaved" && r.parallel.virtual_stages == 1 &&
                r.parallel.pipeline != 1;
       },
       "interleaved takes turns between several stages of a rank, and parallel.virtual_stages is 1",
       "set parallel.virtual_stages to 2 or more, or choose 1f1b, which is the same with one stage"},
      {{"parallel.virtual_stages", "parallel.schedule"},
       [](const Recipe& r) {
         return r.parallel.virtual_stages > 1 && r.parallel.pipeline != 1 && !HasStages(r.parallel);
       },
       "this parallel.schedule has another number of stages a rank: 2 with zb-v, v-half and v-min, any with "
       "interleaved, and 1 with the others",
       "remove it, or choose interleaved"},
      {{"parallel.compression_ratio", "parallel.compression"},
       [](const Recipe& r) {
         return r.parallel.compression_ratio != ParallelSection().compression_ratio &&
                r.parallel.compression != CompressionName::kTopK;
       },
       "has no effect without parallel.compression: topk",
       "set parallel.compression: topk, or remove it"},
      {{"optimizer.name", "parallel.tensor"},
       [](const Recipe& r) {
         const OptimizerName name = r.optimizer.name;
         return (name == OptimizerName::kMuon || name == OptimizerName::kAdafactor) && r.parallel.tensor != 1;
       },
       "muon and adafactor need whole matrices, which parallel.tensor shares out",
       "choose adamw, adamw_8bit, lion or sgd, or use parallel.data and parallel.zero instead"},
      {{"parallel.sequence_parallel", "parallel.tensor"},
       [](const Recipe& r) { return r.parallel.sequence_parallel && r.parallel.tensor == 1; },
       "has no effect without parallel.tensor above 1",
       "set parallel.tensor, or remove it"},
      {{"model.rope_scaling.original_max_position_embeddings", "model.rope_scaling.rope_type"},
       [](const Recipe& r) {
         const std::optional<RopeScaling>& rope = r.model.rope_scaling;
         return rope && rope->rope_type == RopeType::kLlama3 && !rope->original_max_position_embeddings;
       },
       "missing with rope_type: llama3",
       "give the context length that the model was first trained with"},
      {{"model.rope_scaling.high_freq_factor", "model.rope_scaling.low_freq_factor",
        "model.rope_scaling.rope_type"},
       [](const Recipe& r) {
         const std::optional<RopeScaling>& rope = r.model.rope_scaling;
         return rope && rope->rope_type == RopeType::kLlama3 &&
                rope->high_freq_factor <= rope->low_freq_factor;
       },
       "not above low_freq_factor",
       "give both as in the model's documentation"},
  };
}

// The regular expressions of a key.
struct Patterns {
  std::string key;
  std::vector<std::string> (*texts)(const Recipe&);
};

template <class T>
std::vector<std::string> Names(const std::vector<std::pair<std::string, T>>& map) {
  std::vector<std::string> names;
  for (const auto& [name, value] : map) names.push_back(name);
  return names;
}

const std::vector<Patterns>& AllPatterns() {
  using Texts = std::vector<std::string>;
  static const std::vector<Patterns> all = {
      {"adapter.target_modules",
       [](const Recipe& r) {
         const bool regex = r.adapter && r.adapter->target_modules.kind == TargetModules::Kind::kRegex;
         return regex ? Texts{r.adapter->target_modules.regex} : Texts{};
       }},
      {"adapter.rank_pattern",
       [](const Recipe& r) { return r.adapter ? Names(r.adapter->rank_pattern) : Texts{}; }},
      {"adapter.alpha_pattern",
       [](const Recipe& r) { return r.adapter ? Names(r.adapter->alpha_pattern) : Texts{}; }},
      {"train.freeze", [](const Recipe& r) { return r.train.freeze; }},
  };
  return all;
}

void CheckPatterns(const LoadedRecipe& loaded, const std::set<std::string>& wrong,
                   std::vector<ErrorDetail>& errors) {
  for (const Patterns& patterns : AllPatterns()) {
    if (wrong.contains(patterns.key)) continue;
    for (const std::string& text : patterns.texts(loaded.recipe)) {
      const absl::Status status = ModulePattern::Compile(text).status();
      if (status.ok()) continue;
      ErrorDetail error = loaded.At(patterns.key);
      error.found = StrCat("'", text, "'");
      error.expected = "a regular expression";
      const std::optional<ErrorDetail> why = DetailOf(status);
      error.message = why ? why->message : std::string(status.message());
      errors.push_back(std::move(error));
    }
  }
}

}  // namespace

std::vector<ErrorDetail> CheckRecipe(const LoadedRecipe& loaded, const std::set<std::string>& wrong) {
  std::vector<ErrorDetail> errors;
  for (const Rule& rule : Rules()) {
    const bool readable = std::none_of(rule.keys.begin(), rule.keys.end(),
                                       [&](const std::string& key) { return wrong.contains(key); });
    if (!readable || !rule.broken(loaded.recipe)) continue;
    ErrorDetail error = loaded.At(rule.keys[0]);
    error.message = rule.message;
    error.hint = rule.hint;
    errors.push_back(std::move(error));
  }
  CheckPatterns(loaded, wrong, errors);
  return errors;
}

}  // namespace ftune
