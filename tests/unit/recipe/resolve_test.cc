#include "cmd/recipe/resolve.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cmd/recipe/availability.h"
#include "cmd/recipe/errors.h"
#include "cmd/recipe/load.h"

namespace ftune {
namespace {

constexpr char kMinimal[] = "model: {path: m}\ndata: {train: d.jsonl}\n";

LoadedRecipe Load(const std::string& more) {
  absl::StatusOr<LoadedRecipe> loaded = LoadRecipeText(kMinimal + more, "dir/my.run.yaml");
  INFO(loaded.status().message());
  REQUIRE(loaded.ok());
  return *std::move(loaded);
}

Recipe Resolved(const std::string& more, const Environment& environment = {.cores = 4}) {
  LoadedRecipe loaded = Load(more);
  const absl::Status status = Resolve(loaded, environment);
  INFO(status.message());
  REQUIRE(status.ok());
  return loaded.recipe;
}

std::string ResolveError(const std::string& more) {
  LoadedRecipe loaded = Load(more);
  const absl::Status status = Resolve(loaded, {.cores = 4});
  CHECK(ExitCodeOf(status) == 2);
  return std::string(status.message());
}

std::string LoadError(const std::string& more) {
  const absl::StatusOr<LoadedRecipe> loaded = LoadRecipeText(kMinimal + more, "r.yaml");
  return std::string(loaded.status().message());
}

std::vector<int64_t> Batch(const std::string& more) {
  const Recipe recipe = Resolved(more);
  const TrainSection& train = recipe.train;
  CHECK(*train.global_batch_size ==
        *train.micro_batch_size * *train.gradient_accumulation_steps * *recipe.parallel.data);
  return {*train.global_batch_size, *train.micro_batch_size, *train.gradient_accumulation_steps};
}

TEST_CASE("what is auto") {
  const Recipe full = Resolved("");
  CHECK(full.output_dir == "runs/my.run");
  CHECK(full.optimizer.learning_rate == 2e-5);
  CHECK(full.optimizer.warmup_ratio == 0.03);
  CHECK(full.precision.weights == WeightType::kFp32);
  CHECK(full.launch.device == DeviceKind::kCpu);
  CHECK(full.launch.kind == LaunchKind::kLocal);
  CHECK(full.launch.threads == 4);
  CHECK(full.launch.ranks_per_host == 1);
  CHECK(full.parallel.data == 1);
  // The data itself tells.
  CHECK_FALSE(full.data.train[0].format.has_value());
  CHECK_FALSE(full.data.excess_length_strategy.has_value());
  CHECK_FALSE(full.train.evals_per_epoch.has_value());

  const Recipe lora =
      Resolved("adapter: {lora_r: 12}\noptimizer: {warmup_steps: 0}\n", {.cores = 2, .has_cuda = true});
  CHECK(lora.optimizer.learning_rate == 2e-4);
  CHECK_FALSE(lora.optimizer.warmup_ratio.has_value());
  CHECK(lora.adapter->lora_alpha == 24);
  CHECK(lora.adapter->quantize == Quantization::kNone);
  CHECK(lora.launch.device == DeviceKind::kCuda);
  CHECK(lora.precision.weights == WeightType::kBf16);

  const Recipe qlora = Resolved("adapter: {kind: qlora}\n");
  CHECK(qlora.adapter->kind == AdapterKind::kLora);
  CHECK(qlora.adapter->quantize == Quantization::kNf4);
  CHECK(Resolved("adapter: {kind: qlora, quantize: fp4}\n").adapter->quantize == Quantization::kFp4);
}

TEST_CASE("an optimizer gets the numbers that it has, and no others") {
  const auto numbers = [](const std::string& name) {
    const OptimizerSection o = Resolved("optimizer: {name: " + name + "}\n").optimizer;
    return std::vector<Auto<double>>{o.beta1, o.beta2, o.eps, o.momentum};
  };
  using Numbers = std::vector<Auto<double>>;
  CHECK(numbers("adamw") == Numbers{0.9, 0.999, 1e-8, {}});
  CHECK(numbers("adamw_torch_fused") == numbers("adamw"));
  CHECK(numbers("adamw_8bit") == numbers("adamw"));
  CHECK(numbers("adamw_bnb_8bit") == numbers("adamw"));
  CHECK(numbers("lion") == Numbers{0.9, 0.99, {}, {}});
  CHECK(numbers("sgd") == Numbers{{}, {}, {}, 0.0});
  CHECK(numbers("adafactor") == Numbers{{}, {}, {}, {}});
  CHECK(numbers("muon") == Numbers{0.9, 0.999, 1e-8, 0.95});
  const OptimizerSection zero =
      Resolved("optimizer: {name: muon, beta1: 0, beta2: 0, momentum: 0}\n").optimizer;
  CHECK(zero.beta1 == 0);
  CHECK(zero.beta2 == 0);
  CHECK(zero.momentum == 0);
}

TEST_CASE("what is given stays") {
  const Recipe recipe = Resolved(
      "output_dir: o\noptimizer: {learning_rate: 0, warmup_ratio: 0}\nadapter: {lora_alpha: 1}\n"
      "launch: {threads: 3, device: cpu}\nprecision: {weights: bf16}\n");
  CHECK(recipe.output_dir == "o");
  CHECK(recipe.optimizer.learning_rate == 0);
  CHECK(recipe.optimizer.warmup_ratio == 0);
  CHECK(recipe.adapter->lora_alpha == 1);
  CHECK(recipe.launch.threads == 3);
  CHECK(recipe.precision.weights == WeightType::kBf16);
}

TEST_CASE("data and evaluation") {
  const auto resolved = [](const std::string& text) {
    absl::StatusOr<LoadedRecipe> loaded = LoadRecipeText("model: {path: m}\n" + text, "r.yaml");
    REQUIRE(loaded.ok());
    REQUIRE(Resolve(*loaded, {}).ok());
    return loaded->recipe;
  };
  CHECK(resolved("data: {train: a, eval: b}").train.evals_per_epoch == 1);
  CHECK(resolved("data: {train: a, val_set_size: 3}").train.evals_per_epoch == 1);
  CHECK_FALSE(
      resolved("data: {train: a, eval: b}\ntrain: {eval_steps: 3}").train.evals_per_epoch.has_value());
}

TEST_CASE("sizes of a batch are derived") {
  using Sizes = std::vector<int64_t>;
  CHECK(Batch("") == Sizes{16, 1, 16});
  CHECK(Batch("train: {global_batch_size: 6}") == Sizes{6, 1, 6});
  CHECK(Batch("train: {micro_batch_size: 4}") == Sizes{16, 4, 4});
  CHECK(Batch("train: {gradient_accumulation_steps: 4}") == Sizes{16, 4, 4});
  CHECK(Batch("train: {micro_batch_size: 3}") == Sizes{18, 3, 6});  // the default is rounded up
  CHECK(Batch("train: {micro_batch_size: 64}") == Sizes{64, 64, 1});
  CHECK(Batch("train: {micro_batch_size: 3, gradient_accumulation_steps: 5}") == Sizes{15, 3, 5});
  CHECK(Batch("train: {global_batch_size: 12, gradient_accumulation_steps: 4}") == Sizes{12, 3, 4});
  CHECK(Batch("train: {global_batch_size: 12, micro_batch_size: 4, gradient_accumulation_steps: 3}") ==
        Sizes{12, 4, 3});
  CHECK(Batch("parallel: {data: 4}") == Sizes{16, 1, 4});
  CHECK(Batch("parallel: {data: 3}") == Sizes{18, 1, 6});
  CHECK(Batch("parallel: {data: 4}\ntrain: {global_batch_size: 16, micro_batch_size: 2}") == Sizes{16, 2, 2});
}

TEST_CASE("sizes that were given must multiply out") {
  CHECK(ResolveError(
            "train:\n  global_batch_size: 16\n  micro_batch_size: 4\n  gradient_accumulation_steps: 3\n") ==
        "dir/my.run.yaml:4: error: train.global_batch_size: found 16, expected micro_batch_size 4 × "
        "gradient_accumulation_steps 3 × parallel.data 1 = 12; change one of them, or leave one out to have "
        "it derived");
  CHECK(ResolveError("train: {batch_size: 10, micro_batch_size: 4}\n") ==
        "dir/my.run.yaml:3: error: train.global_batch_size: found 10, expected a multiple of "
        "micro_batch_size 4 × "
        "parallel.data 1 = 4; change one of them");
  CHECK(ResolveError("train: {global_batch_size: 10}\nparallel: {data: 4}\n") ==
        "dir/my.run.yaml:3: error: train.global_batch_size: found 10, expected a multiple of parallel.data 4 "
        "= 4; change "
        "one of them");
  CHECK(ResolveError("train: {global_batch_size: 2, micro_batch_size: 4}\n").find("a multiple of") !=
        std::string::npos);
  CHECK(ResolveError("train: {micro_batch_size: 1000000000, gradient_accumulation_steps: 1000000000}\n"
                     "parallel: {data: 1000000}\n") ==
        "dir/my.run.yaml:3: error: train.micro_batch_size: micro_batch_size 1000000000 × "
        "gradient_accumulation_steps "
        "1000000000 × parallel.data 1000000 is too large a batch, expected at most 1000000000");
}

TEST_CASE("any axis may be auto") {
  const Recipe tensor = Resolved("parallel: {data: 2, tensor: auto}\nlaunch: {ranks_per_host: 8}\n");
  CHECK(tensor.parallel.tensor == 4);
  // What is said of data alone is said of one axis too many.
  CHECK(Resolved("parallel: {tensor: auto}\nlaunch: {ranks_per_host: 3}\n").parallel.tensor == 3);
  CHECK(Resolved("parallel: {tensor: auto}\nlaunch: {ranks_per_host: 3}\n").parallel.data == 1);
  CHECK(Resolved("parallel: {tensor: auto}\n").parallel.tensor == 1);
  CHECK(ResolveError("parallel: {tensor: auto, context: auto}\n") ==
        "dir/my.run.yaml:3: error: parallel.context: found auto, beside parallel.tensor: auto, expected one "
        "axis "
        "at most that is auto; give a number for one of them");
  CHECK(ResolveError("parallel: {tensor: auto, data: auto}\n").find("parallel.data: found auto") !=
        std::string::npos);
}

TEST_CASE("the ranks that a launcher has started") {
  const Recipe data = Resolved("parallel: {tensor: 2}\n", {.cores = 8, .ranks = 8, .ranks_per_host = 4});
  CHECK(data.parallel.data == 4);
  CHECK(data.launch.ranks_per_host == 4);
  CHECK(data.launch.threads == 2);
  CHECK(data.launch.kind == LaunchKind::kEnv);
  const Environment tasks = {.cores = 4, .ranks = 3, .source = RankSource::kSlurm};
  CHECK(Resolved("", tasks).launch.kind == LaunchKind::kSlurm);
  LoadedRecipe of_tasks = Load("parallel: {data: 2}\n");
  CHECK(Resolve(of_tasks, tasks).message().find("environment: error: SLURM_NTASKS: found 3") == 0);
  LoadedRecipe loaded = Load("parallel: {data: 2}\n");
  const absl::Status status = Resolve(loaded, {.cores = 4, .ranks = 3});
  CHECK(ExitCodeOf(status) == 2);
  CHECK(status.message() ==
        "environment: error: WORLD_SIZE: found 3, expected tensor 1 × pipeline 1 × context 1 × data 2 = 2 "
        "ranks; "
        "change one of them, or leave parallel.data out to have it derived");
}

TEST_CASE("sharding") {
  CHECK_FALSE(Resolved("parallel: {data: 4}\n").parallel.shard_size.has_value());
  CHECK(Resolved("parallel: {data: 4, zero: 1}\n").parallel.shard_size == 4);
  CHECK(Resolved("parallel: {data: 4, zero: 3, shard_size: 2}\n").parallel.shard_size == 2);
  CHECK(
      ResolveError("parallel: {data: 4, zero: 3, shard_size: 3}\n") ==
      "dir/my.run.yaml:3: error: parallel.shard_size: found 3, expected a divisor of parallel.data, which is "
      "4; change one of them, or leave shard_size out to shard over all of them");
  CHECK(LoadError("parallel: {shard_size: 2}\n").find("parallel.zero above 0") != std::string::npos);
  CHECK(LoadError("parallel: {tensor: 2}\noptimizer: {name: muon}\n").find("optimizer.name: muon and") !=
        std::string::npos);
  CHECK(LoadError("parallel: {tensor: 2}\n") == "");
}

TEST_CASE("the mesh") {
  const Recipe axes = Resolved("parallel: {tensor: 2, pipeline: 2}\n");
  CHECK(axes.launch.ranks_per_host == 4);
  CHECK(axes.parallel.data == 1);
  CHECK(axes.launch.threads == 1);
  CHECK(axes.parallel.virtual_stages == 1);
  CHECK(Resolved("parallel: {pipeline: 2, schedule: v-min}\n").parallel.virtual_stages == 2);
  CHECK(Resolved("parallel: {pipeline: 2, schedule: interleaved, virtual_stages: 3}\n")
            .parallel.virtual_stages == 3);
  CHECK(Resolved("parallel: {tensor: 2}\nlaunch: {ranks_per_host: 6}\n").parallel.data == 3);
  const auto on_hosts = [](const std::string& more, std::vector<int> slots) {
    return Resolved(more, {.cores = 4, .slots = std::move(slots)});
  };
  const Recipe hosts = on_hosts("launch: {hosts: [a, b]}\n", {0, 0});
  CHECK(hosts.parallel.data == 2);
  CHECK(hosts.launch.kind == LaunchKind::kSsh);
  CHECK(on_hosts("launch: {hosts: [a, b], ranks_per_host: 3}\n", {0, 0}).parallel.data == 6);
  CHECK(on_hosts("launch: {hosts: [a, b]}\nparallel: {tensor: 2}\n", {4, 2}).parallel.data == 3);
  CHECK(on_hosts("launch: {hosts: [a, b], ranks_per_host: 3}\n", {5, 0}).parallel.data == 8);
  CHECK(on_hosts("launch: {hosts: [a, b]}\nparallel: {data: 4}\n", {0, 0}).launch.ranks_per_host == 2);
  CHECK(on_hosts("launch: {hosts: [a, b]}\nparallel: {data: 4}\n", {3, 0}).launch.ranks_per_host == 1);
  const Recipe nodes =
      Resolved("launch: {ranks_per_host: 2}\n", {.cores = 4, .slots = {0, 0, 0}, .slurm = true});
  CHECK(nodes.parallel.data == 6);
  CHECK(nodes.launch.kind == LaunchKind::kSlurm);
  CHECK(ResolveError("parallel: {tensor: 4}\nlaunch: {ranks_per_host: 6}\n") ==
        "dir/my.run.yaml:4: error: launch.ranks_per_host: found 6 on 1 host, expected a multiple of tensor 4 "
        "× pipeline 1 × "
        "context 1 = 4 ranks; change one of them");
  CHECK(ResolveError("parallel: {data: 4}\nlaunch: {ranks_per_host: 2}\n") ==
        "dir/my.run.yaml:4: error: launch.ranks_per_host: found 2 on 1 host, expected tensor 1 × pipeline 1 "
        "× context 1 × "
        "data 4 = 4 ranks; change one of them, or leave parallel.data out to have it derived");
  CHECK(ResolveError("parallel: {data: 1000000, tensor: 1000000, pipeline: 1000000, context: 1000000}\n")
            .find("error: parallel: found tensor 1000000 × pipeline 1000000 × context 1000000 × data "
                  "1000000, expected at "
                  "most 1000000 ranks") != std::string::npos);
}

TEST_CASE("the learning rate of an embedding's adapter belongs to LoRA+") {
  CHECK_FALSE(Resolved("adapter: {}\n").adapter->loraplus_lr_embedding.has_value());
  CHECK(Resolved("adapter: {loraplus_lr_ratio: 4}\n").adapter->loraplus_lr_embedding == 1e-6);
  CHECK(Resolved("adapter: {loraplus_lr_ratio: 4, loraplus_lr_embedding: 0}\n")
            .adapter->loraplus_lr_embedding == 0.0);
}

TEST_CASE("data options that have no effect or contradict each other") {
  const auto refused = [](const std::string& sections, const std::string& key) {
    const auto loaded = LoadRecipeText("model: {path: m}\n" + sections, "r.yaml");
    const std::string message(loaded.status().message());
    CAPTURE(message);
    CHECK(message.find("error: " + key + ": ") != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  };
  refused("data: {train: d, group_by_length: true}\n", "data.group_by_length");
  refused("data: {train: d, truncation_side: left}\n", "data.truncation_side");
  refused("data: {train: d, truncation_side: left, excess_length_strategy: split}\n", "data.truncation_side");
  refused("data: {train: d, split_turns: true, train_on_inputs: true}\n", "data.split_turns");
  refused("data: {train: d, split_turns: false, train_on_inputs: true}\n", "data.split_turns");
  CHECK(LoadRecipeText("model: {path: m}\ndata: {train: d, split_turns: auto, train_on_inputs: true}\n", "r")
            .ok());
  refused("data: {train: d, mix: interleave}\n", "data.mix");
  refused("data: {train: {path: d, weight: 2, epochs: 1}}\n", "data.train");
  refused("data: {train: d, eval: {path: e, weight: 2}}\n", "data.eval");
  refused("data: {train: d, eval: {path: e, epochs: 1}}\n", "data.eval");
  refused("data: {train: d, streaming: true}\n", "data.streaming");
  const auto streaming = [&](const std::string& data, const std::string& train) {
    refused("data: {streaming: true, train: " + data + "}\ntrain: {max_steps: 5" + train + "}\n",
            "data.streaming");
  };
  streaming("d, val_set_size: 1", "");
  streaming("d, packing: false, group_by_length: true", "");
  streaming("{path: d, epochs: 3}", "");
  streaming("{path: d, weight: 3}", "");
  refused("data: {train: d, streaming_window: 9}\n", "data.streaming_window");
  streaming("{path: d, max_samples: 3}", "");
  streaming("d, eval: e", ", evals_per_epoch: 2");
  streaming("d", ", num_epochs: 2");
}

TEST_CASE("keys that contradict each other") {
  CHECK(LoadError("optimizer:\n  warmup_ratio: 0\n  warmup_steps: 0\n") ==
        "r.yaml:5: error: optimizer.warmup_steps: given together with optimizer.warmup_ratio; keep one, or "
        "set the other "
        "to null");
  const auto broken = [](const std::string& more, const std::string& key) {
    const std::string message = LoadError(more);
    CAPTURE(message);
    CHECK(message.find("error: " + key + ": ") != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  };
  broken("train: {eval_steps: 3}\n", "train.eval_steps");
  broken("train: {evals_per_epoch: 3}\n", "train.evals_per_epoch");
  broken("train: {early_stopping_patience: 3}\n", "train.early_stopping_patience");
  broken("checkpoint: {save_steps: 1, saves_per_epoch: 2}\n", "checkpoint.saves_per_epoch");
  broken("launch: {hosts: [a], hostfile: b}\n", "launch.hostfile");
  broken("launch: {include: a}\n", "launch.include");
  broken("launch: {exclude: a}\n", "launch.exclude");
  broken("adapter: {kind: qlora, quantize: none}\n", "adapter.quantize");
  broken("adapter: {}\ntrain: {freeze: [x]}\n", "train.freeze");
  broken("adapter: {loraplus_lr_embedding: 1e-5}\n", "adapter.loraplus_lr_embedding");
  broken("adapter: {target_modules: 'a(b'}\n", "adapter.target_modules");
  broken("adapter: {rank_pattern: {'*': 2}}\n", "adapter.rank_pattern");
  broken("adapter: {alpha_pattern: {'a)|(b': 2}}\n", "adapter.alpha_pattern");
  broken("train: {freeze: ['[']}\n", "train.freeze");
  broken("optimizer: {lr_scheduler: constant, min_lr_ratio: 0.1}\n", "optimizer.min_lr_ratio");
  broken("precision: {loss_scale: 8}\n", "precision.loss_scale");
  for (const std::string weights : {"auto", "fp32", "fp16"}) {
    broken("precision: {master: none, weights: " + weights + "}\n", "precision.master");
  }
  CHECK(LoadError("precision: {master: none, weights: bf16}\n") == "");
  for (const std::string name : {"sgd", "adafactor"}) {
    broken("optimizer: {beta1: 0, name: " + name + "}\n", "optimizer.beta1");
    broken("optimizer: {beta2: 0, name: " + name + "}\n", "optimizer.beta2");
  }
  for (const std::string name : {"sgd", "adafactor", "lion"}) {
    broken("optimizer: {eps: 1, name: " + name + "}\n", "optimizer.eps");
  }
  for (const std::string name : {"adamw", "adafactor", "lion", "adamw_8bit"}) {
    broken("optimizer: {momentum: 0, name: " + name + "}\n", "optimizer.momentum");
    broken("optimizer: {adjust_lr: original, name: " + name + "}\n", "optimizer.adjust_lr");
  }
  CHECK(LoadError(
            "optimizer: {name: muon, beta1: 0, beta2: 0, eps: 1, momentum: 0, adjust_lr: original}\n") == "");
  broken("parallel: {sequence_parallel: true}\n", "parallel.sequence_parallel");
  broken("parallel: {zero: 2, reshard_after_forward: false}\n", "parallel.reshard_after_forward");
  broken("parallel: {schedule: zb-h1}\n", "parallel.schedule");
  broken("parallel: {virtual_stages: 2}\n", "parallel.virtual_stages");
  broken("parallel: {stages: [3, 3]}\n", "parallel.stages");
  broken("parallel: {pipeline: 2, schedule: interleaved}\n", "parallel.schedule");
  broken("parallel: {pipeline: 2, virtual_stages: 2}\n", "parallel.virtual_stages");
  broken("parallel: {pipeline: 2, virtual_stages: 3, schedule: zb-v}\n", "parallel.virtual_stages");
  broken("model.rope_scaling: 1\n", "model.rope_scaling");
  const auto rope = [](const std::string& scaling, const std::string& more) {
    return std::string(
        LoadRecipeText("model: {path: m, rope_scaling: " + scaling + "}\ndata: {train: d}\n" + more, "r.yaml")
            .status()
            .message());
  };
  for (const char* scaling : {"{rope_type: linear}", "{rope_type: default, factor: 2}"}) {
    CHECK(rope(scaling, "").find("a factor above 1 and a rope_type other than default belong together") !=
          std::string::npos);
  }
  CHECK(rope("{rope_type: linear, factor: 2}", "") == "");
  CHECK(rope("{rope_type: linear, factor: 2}", "adapter: {kind: lora}\n")
            .find("model.rope_scaling.rope_type: PEFT's adapters have no place for it") != std::string::npos);
  const auto data = [](const std::string& text) {
    return std::string(
        LoadRecipeText("model: {path: m, rope_scaling: {rope_type: llama3, factor: 8}}\n" + text, "r.yaml")
            .status()
            .message());
  };
  CHECK(data("data: {train: a, eval: b, val_set_size: 0.1}\ntrain: {eval_steps: 1, evals_per_epoch: 1}\n") ==
        "r.yaml: error: model.rope_scaling.original_max_position_embeddings: missing with rope_type: llama3; "
        "give the "
        "context length that the model was first trained with\n"
        "r.yaml:2: error: data.val_set_size: given together with data.eval; keep one: data of its own, or a "
        "part of the "
        "training data\n"
        "r.yaml:3: error: train.evals_per_epoch: given together with train.eval_steps; keep one, or set the "
        "other to null");
  CHECK(LoadError("optimizer: {warmup_ratio: 0.1, warmup_steps: null}\n") == "");
  // A rule about a key that could not be read says nothing more.
  CHECK(data("data: {train: a, eval: {format: text}}\ntrain: {eval_steps: 1}\n").find("no evaluation data") ==
        std::string::npos);
  CHECK(LoadError("optimizer: {warmup_ratio: 0.1, warmup_steps: x}\n") ==
        "r.yaml:3: error: optimizer.warmup_steps: found x, expected null or a whole number of 0 or more");
}

std::string Unavailable(const std::string& more) {
  const LoadedRecipe loaded = Load(more);
  const absl::Status status = CheckAvailable(loaded);
  CHECK((status.ok() || ExitCodeOf(status) == 2));
  return std::string(status.message());
}

TEST_CASE("what this version does not have is refused by name") {
  CHECK(Unavailable("parallel: {context: 2}\n") ==
        "dir/my.run.yaml:3: error: parallel.context: this version of ftune does not have this value; found "
        "2, expected 1; use parallel.data, parallel.tensor or parallel.pipeline");
  for (const std::string text :
       {"memory: {offload: parameters}", "parallel: {context: 2}", "launch: {device: cuda}"}) {
    CAPTURE(text);
    const std::string section = text.substr(0, text.find(':'));
    const absl::StatusOr<LoadedRecipe> loaded = LoadRecipeText(kMinimal + text, "r.yaml");
    REQUIRE(loaded.ok());
    const absl::Status status = CheckAvailable(*loaded);
    CHECK(status.message().find("r.yaml:3: error: " + section + ".") == 0);
    CHECK(RecipeErrorsOf(status).size() == 1);
  }
}

TEST_CASE("what this version has passes, before and after it is resolved") {
  LoadedRecipe loaded = Load(
      "adapter: {target_modules: [q_proj], use_dora: true, use_rslora: true, loraplus_lr_ratio: 2, "
      "modules_to_save: [lm_head], rank_pattern: {q_proj: 2}}\ntrain: {max_steps: 3}\nprecision: {weights: "
      "bf16}\n"
      "memory: {activation_checkpointing: selective}\noptimizer: {name: sgd}\nlaunch: {threads: 2, "
      "ranks_per_host: 4}\nparallel: {data: 2, tensor: auto, zero: 2, sequence_parallel: true}\n");
  CHECK(CheckAvailable(loaded).message() == "");
  REQUIRE(Resolve(loaded, {.cores = 2}).ok());
  CHECK(CheckAvailable(loaded).message() == "");
}

}  // namespace
}  // namespace ftune
