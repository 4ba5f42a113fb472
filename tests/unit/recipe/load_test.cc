#include "cmd/recipe/load.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cmd/recipe/errors.h"

namespace ftune {
namespace {

constexpr char kMinimal[] = "model: {path: m}\ndata: {train: d.jsonl}\n";

Recipe Load(const std::string& text, const std::vector<std::string>& overrides = {}) {
  absl::StatusOr<LoadedRecipe> loaded = LoadRecipeText(text, "r.yaml", overrides);
  INFO(loaded.status().message());
  REQUIRE(loaded.ok());
  return loaded->recipe;
}

std::string ErrorOf(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const absl::StatusOr<LoadedRecipe> loaded = LoadRecipeText(text, "r.yaml", overrides);
  if (loaded.ok()) return "";
  CHECK(ExitCodeOf(loaded.status()) == 2);
  return std::string(loaded.status().message());
}

// The error of a minimal recipe with more lines, the first of which is line 3.
std::string ErrorWith(const std::string& more, const std::vector<std::string>& overrides = {}) {
  return ErrorOf(kMinimal + more, overrides);
}

TEST_CASE("only model.path and data.train are required") {
  const Recipe recipe = Load(kMinimal);
  Recipe expected;
  expected.model.path = "m";
  expected.data.train = {{.path = "d.jsonl"}};
  CHECK(recipe == expected);
  CHECK_FALSE(recipe.adapter.has_value());
  CHECK(ErrorOf("train: {seed: 1}\n") ==
        "r.yaml: error: model.path: missing, expected a path; add `model: {path: …}`\n"
        "r.yaml: error: data.train: missing, expected a list of paths, or of maps of path, format and "
        "weight; add "
        "`data: {train: …}`");
}

TEST_CASE("values land in the structs") {
  const Recipe recipe = Load(R"(
output_dir: out
model: {path: "m", init_from: c}
adapter: {kind: qlora, lora_r: 8, lora_alpha: 12.5, lora_dropout: 0, target_modules: [q_proj, v_proj]}
data:
  train:
    - a.jsonl
    - {path: b.jsonl, format: messages, weight: 0.5}
  val_set_size: 0.1
  packing: off
train: {max_steps: 1, num_epochs: 2.5, seed: 0}
optimizer: {learning_rate: 2e-5, max_grad_norm: null, lr_scheduler: LINEAR, warmup_steps: 0}
precision: {weights: bf16, loss_scale: dynamic}
parallel: {pipeline: 2, schedule: my.csv, stages: [8, 7]}
memory: {activation_checkpointing: 3}
checkpoint: {stop_after: 3h55m}
launch: {hosts: [n1, {host: n2, slots: 4}], slurm: {time: 04:00:00, extra: ["--x=1"]}}
)");
  CHECK(recipe.output_dir == "out");
  CHECK(recipe.model.init_from == "c");
  const Recipe longer = Load(
      "model: {path: m, rope_scaling: {type: llama3, factor: 8, original_max_position_embeddings: 8192}}\n"
      "data: {train: d}\n");
  CHECK(longer.model.rope_scaling->rope_type == RopeType::kLlama3);
  CHECK(longer.model.rope_scaling->original_max_position_embeddings == 8192);
  CHECK(recipe.adapter->kind == AdapterKind::kQlora);
  CHECK(recipe.adapter->lora_alpha == 12.5);
  CHECK(recipe.adapter->target_modules.names == std::vector<std::string>{"q_proj", "v_proj"});
  CHECK(recipe.data.train ==
        std::vector<DataSource>{{.path = "a.jsonl"},
                                {.path = "b.jsonl", .format = DataFormat::kMessages, .weight = 0.5}});
  CHECK(recipe.data.val_set_size == CountOrShare{.share = 0.1});
  CHECK_FALSE(recipe.data.packing);
  CHECK(recipe.train.max_steps == 1);
  CHECK(recipe.train.num_epochs == 2.5);
  CHECK(recipe.train.seed == 0);  // 0 is a value
  CHECK(Load(std::string(kMinimal) + "train: {freeze: [\".*embed.*\"]}\n").train.freeze ==
        std::vector<std::string>{".*embed.*"});
  CHECK(recipe.optimizer.learning_rate == 2e-5);
  CHECK_FALSE(recipe.optimizer.max_grad_norm.has_value());
  CHECK(recipe.optimizer.lr_scheduler == LrSchedulerName::kLinear);
  CHECK(recipe.optimizer.warmup_steps == 0);
  CHECK(recipe.precision.weights == WeightType::kBf16);
  CHECK(recipe.parallel.schedule == "my.csv");
  CHECK(recipe.parallel.stages == std::vector<int64_t>{8, 7});
  CHECK(recipe.memory.activation_checkpointing.every_nth == 3);
  CHECK(recipe.checkpoint.stop_after == 3 * 3600 + 55 * 60);
  CHECK(recipe.launch.hosts == std::vector<Host>{{.host = "n1"}, {.host = "n2", .slots = 4}});
  CHECK(recipe.launch.slurm.time == "04:00:00");
  CHECK(recipe.launch.slurm.extra == std::vector<std::string>{"--x=1"});
}

TEST_CASE("other names of keys, in the section and at the top") {
  const Recipe recipe = Load(R"(
base_model: m
data: {train: d, cutoff_len: 128}
lora_rank: 4
train: {per_device_train_batch_size: 2}
num_train_epochs: 3
gradient_checkpointing: true
optim: adamw_torch
optimizer: {lr_scheduler_type: constant_with_warmup}
)");
  CHECK(recipe.model.path == "m");
  CHECK(recipe.data.sequence_len == 128);
  CHECK(recipe.adapter->lora_r == 4);
  CHECK(recipe.train.micro_batch_size == 2);
  CHECK(recipe.train.num_epochs == 3);
  CHECK(recipe.memory.activation_checkpointing.kind == ActivationCheckpointing::Kind::kFull);
  CHECK(recipe.optimizer.name == OptimizerName::kAdamW);
  CHECK(recipe.optimizer.lr_scheduler == LrSchedulerName::kConstant);
  // The alias of a nested section is too common a word to mean something at the top.
  CHECK(ErrorWith("type: linear\n") ==
        "r.yaml:3: error: type: unknown key; did you mean model.rope_scaling.rope_type?");
}

TEST_CASE("sections and short forms") {
  CHECK(Load(std::string(kMinimal) + "adapter: {}\n").adapter == AdapterSection{});
  CHECK_FALSE(Load(std::string(kMinimal) + "adapter:\nlog:\n").adapter.has_value());
  CHECK(Load("model: {path: m}\ndata: {train: {path: d, weight: 2}}").data.train[0].weight == 2);
  const auto target = [](const std::string& text) {
    return Load(kMinimal + ("adapter: {target_modules: " + text + "}\n")).adapter->target_modules;
  };
  CHECK(target("all-linear") == TargetModules{});
  CHECK(target("all") == TargetModules{});
  CHECK(target("q_proj").names == std::vector<std::string>{"q_proj"});
  CHECK(target("'q_proj, v_proj'").names == std::vector<std::string>{"q_proj", "v_proj"});
  CHECK(target("'.*\\.(q|v)_proj'").regex == ".*\\.(q|v)_proj");
}

TEST_CASE("all errors at once, in the order of their lines, those of the command line last") {
  const std::string text = R"(model:
  path: m
data:
  train: [{path: d, formt: text, weight: -1}]
  sequence_len: long
train:
  seed: 1.5
  seed: 2
  eval_on_start: maybe
optimizer:
  name: adamv
unheard: 1
train:
  lerning_rate: 1
)";
  const absl::StatusOr<LoadedRecipe> loaded = LoadRecipeText(text, "r.yaml", {"train.max_steps=0"});
  CHECK(loaded.status().message() ==
        "r.yaml:4: error: data.train[0].formt: unknown key, expected one of path, name, split, revision, "
        "format, weight, epochs, max_samples, columns, roles; did you mean format?\n"
        "r.yaml:4: error: data.train[0].weight: found -1, expected a number from 0 to 1000\n"
        "r.yaml:5: error: data.sequence_len: found long, expected a whole number from 2 to 100000000\n"
        "r.yaml:7: error: train.seed: found 1.5, expected a whole number of 0 or more\n"
        "r.yaml:8: error: train.seed: given twice (first on line 7); keep one (a key and its other names "
        "count as the "
        "same)\n"
        "r.yaml:9: error: train.eval_on_start: found maybe, expected true or false\n"
        "r.yaml:11: error: optimizer.name: found adamv, expected one of adamw, sgd, lion, adafactor, muon, "
        "adamw_8bit; did you mean adamw?\n"
        "r.yaml:12: error: unheard: unknown key; `ftune recipe --reference` lists the keys\n"
        "r.yaml:13: error: train: given twice (first on line 6); put its keys into one section\n"
        "command line: error: train.max_steps: found 0, expected null or a whole number of 1 or more");
  const std::vector<ErrorDetail> errors = RecipeErrorsOf(loaded.status());
  REQUIRE(errors.size() == 10);
  CHECK(errors[2].file == "r.yaml");
  CHECK(errors[2].line == 5);
  CHECK(errors[2].key == "data.sequence_len");
  CHECK(errors[2].found == "long");
  CHECK(errors[9].file == "command line");
  CHECK(errors[9].line == 0);
  CHECK(DetailOf(loaded.status())->key == "data.train[0].formt");
  CHECK(ExitCodeOf(loaded.status()) == 2);
}

TEST_CASE("unknown keys") {
  CHECK(ErrorOf("model: {path: m}\ndata: {train: d}\ntrain:\n  lerning_rate: 1\n") ==
        "r.yaml:4: error: train.lerning_rate: unknown key; did you mean optimizer.learning_rate?");
  CHECK(ErrorWith("learning_rate: 1\n") ==
        "r.yaml:3: error: learning_rate: unknown key; did you mean optimizer.learning_rate?");
  CHECK(ErrorWith("optimiser: {learning_rate: 1, x: 2}\n") ==
        "r.yaml:3: error: optimiser: unknown key; did you mean optimizer?");
  CHECK(
      ErrorWith("optimizer.learning_rate: 1\n") ==
      "r.yaml:3: error: optimizer.learning_rate: unknown key; put learning_rate into the section optimizer");
  CHECK(ErrorWith("per_device_train_batchsize: 1\n") ==
        "r.yaml:3: error: per_device_train_batchsize: unknown key; did you mean train.micro_batch_size?");
  // Of two keys of that name the one of the same section.
  CHECK(ErrorWith("launch: {kimd: ssh}\n") ==
        "r.yaml:3: error: launch.kimd: unknown key; did you mean launch.kind?");
  CHECK(ErrorWith("launch: {slurm: {partiton: x}}\n") ==
        "r.yaml:3: error: launch.slurm.partiton: unknown key; did you mean launch.slurm.partition?");
  CHECK(
      ErrorWith("launch: {hosts: [{hots: x}]}\n") ==
      "r.yaml:3: error: launch.hosts[0].hots: unknown key, expected one of host, slots; did you mean host?\n"
      "r.yaml:3: error: launch.hosts[0]: has no host, expected a host name, or a map of host and slots");
  CHECK(ErrorWith("'': 1\n") == "r.yaml:3: error: unknown key; `ftune recipe --reference` lists the keys");
}

TEST_CASE("keys of other tools, and methods that ftune does not have") {
  CHECK(ErrorWith("datasets: [x]\n") == "r.yaml:3: error: datasets: unknown key; write data.train");
  CHECK(ErrorWith("load_in_4bit: true\n") ==
        "r.yaml:3: error: load_in_4bit: unknown key; write adapter.quantize: nf4");
  for (const char* key :
       {"rl", "dpo_beta", "pref_beta", "orpo_alpha", "kto_desirable_weight", "grpo_k", "simpo_gamma"}) {
    CAPTURE(key);
    CHECK(ErrorWith(std::string(key) + ": 1\n") ==
          "r.yaml:3: error: " + std::string(key) +
              ": ftune does not have preference training or reinforcement learning (DPO, IPO, ORPO, KTO, "
              "SimPO, GRPO, "
              "PPO); remove it");
  }
  CHECK(ErrorWith("num_experts_per_tok: 2\n").find("ftune does not have mixtures of experts") !=
        std::string::npos);
}

TEST_CASE("repeated keys, under any of their names") {
  CHECK(ErrorOf("base_model: a\nmodel: {path: b}\ndata: {train: d}\n") ==
        "r.yaml:2: error: model.path: given twice (first on line 1); keep one (a key and its other names "
        "count as the "
        "same)");
  CHECK(ErrorOf("model: {path: m}\ndata:\n  train:\n    - {path: d,\n       path: e}\n") ==
        "r.yaml:5: error: data.train[0].path: given twice (first on line 4); keep one");
}

TEST_CASE("wrong types") {
  const auto wrong = [](const std::string& section, const std::string& key, const std::string& value) {
    const std::string text = ErrorWith(section + ": {" + key + ": " + value + "}\n");
    const std::string head = "r.yaml:3: error: " + section + "." + key + ": ";
    CHECK(text.starts_with(head));
    return text.starts_with(head) ? text.substr(head.size()) : text;
  };
  CHECK(wrong("train", "seed", "1_000") == "found 1_000, expected a whole number of 0 or more");
  CHECK(wrong("train", "seed", "'16'") ==
        "found \"16\", expected a whole number of 0 or more; remove the quotes");
  CHECK(wrong("train", "seed", "[1]") == "found a list, expected a whole number of 0 or more");
  CHECK(wrong("train", "seed", "") == "found nothing (null), expected a whole number of 0 or more");
  CHECK(wrong("train", "eval_on_start", "1") == "found 1, expected true or false");
  CHECK(wrong("train", "eval_steps", "0") == "found 0, expected null or a whole number of 1 or more");
  CHECK(wrong("optimizer", "learning_rate", "fast") == "found fast, expected auto or a number of 0 or more");
  CHECK(wrong("optimizer", "beta1", "1") == "found 1, expected auto or a number from 0 to below 1");
  CHECK(wrong("optimizer", "min_lr_ratio", "1.1") == "found 1.1, expected a number from 0 to 1");
  CHECK(wrong("optimizer", "max_grad_norm", "0") == "found 0, expected null or a number above 0");
  CHECK(wrong("optimizer", "weight_decay", ".inf") == "found .inf, expected a number of 0 or more");
  CHECK(wrong("precision", "weights", "fp8") == "found fp8, expected auto, or one of fp32, bf16, fp16");
  CHECK(wrong("precision", "loss_scale", "static") == "found static, expected dynamic or a number above 0");
  CHECK(wrong("precision", "gradients", "bf16") == "found bf16, expected fp32");
  CHECK(wrong("parallel", "zero", "4") == "found 4, expected a whole number from 0 to 3");
  CHECK(wrong("parallel", "schedule", "1f2b") ==
        "found 1f2b, expected one of gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, v-half, v-min, or a .csv "
        "file; did "
        "you mean 1f1b?");
  CHECK(wrong("parallel", "stages", "8") ==
        "found 8, expected auto or a list of layer counts; put it in brackets: [8]");
  CHECK(wrong("memory", "activation_checkpointing", "0") ==
        "found 0, expected one of none, full, selective, or a whole number of 1 or more (every n-th block)");
  CHECK(wrong("checkpoint", "stop_after", "soon") ==
        "found soon, expected null or a duration such as 30m, 3h55m or 45s");
  CHECK(wrong("launch", "start_timeout", "0s") == "found 0s, expected a duration such as 30m, 3h55m or 45s");
  CHECK(ErrorOf("model: {path: m}\ndata: {train: d, val_set_size: 1.5}\n") ==
        "r.yaml:2: error: data.val_set_size: found 1.5, expected a share from 0 to below 1, or a whole "
        "number of samples");
  CHECK(ErrorWith("adapter: {rank_pattern: {q_proj: 0}}\n") ==
        "r.yaml:3: error: adapter.rank_pattern.q_proj: found 0, expected a whole number from 1 to 65536");
  CHECK(wrong("adapter", "rank_pattern", "[q_proj]") ==
        "found a list, expected a map of regular expressions and ranks");
  CHECK(ErrorWith("adapter: {alpha_pattern: {a: 1, a: 2}}\n") ==
        "r.yaml:3: error: adapter.alpha_pattern.a: given twice (first on line 3); keep one");
  CHECK(wrong("adapter", "lora_r", "0") == "found 0, expected a whole number from 1 to 65536");
  CHECK(wrong("adapter", "lora_alpha", "0") == "found 0, expected auto or a number above 0");
  CHECK(wrong("adapter", "lora_dropout", "1") == "found 1, expected a number from 0 to below 1");
  CHECK(wrong("adapter", "target_modules", "[]") ==
        "found an empty list, expected all-linear, a list of module names, or a regular expression");
  CHECK(ErrorOf("model: {path: m}\ndata: {train: []}\n") ==
        "r.yaml:2: error: data.train: found an empty list, expected a list of paths, or of maps of path, "
        "format and "
        "weight");
  CHECK(ErrorWith("adapter: {target_modules: [q, [v]]}\n") ==
        "r.yaml:3: error: adapter.target_modules[1]: found a list, expected a module name");
  CHECK(ErrorWith("output_dir: ''\n") == "r.yaml:3: error: output_dir: found \"\", expected auto or a path");
  CHECK(ErrorWith("log:\n  hook: x: y\n") ==
        "r.yaml:4: error: not valid YAML: a colon where no value can stand; indent the line as its "
        "neighbours are, or "
        "quote a value that contains ': '");
  CHECK(wrong("train", "seed", std::string(59, 'x') + "éé") ==
        "found " + std::string(59, 'x') + "…, expected a whole number of 0 or more");
}

TEST_CASE("words that YAML reads as booleans are words where words are expected") {
  CHECK(Load(std::string(kMinimal) + "output_dir: on\n").output_dir == "on");
  CHECK(Load(std::string(kMinimal) + "output_dir: 123\n").output_dir == "123");
  CHECK(Load(std::string(kMinimal) + "log: {tensorboard: yes, hook: 'no'}\n").log.hook == "no");
  CHECK(Load(std::string(kMinimal) + "log: {hook: 'null'}\n").log.hook == "null");
  CHECK_FALSE(Load(std::string(kMinimal) + "log: {hook: ~}\n").log.hook.has_value());
  CHECK(Load(std::string(kMinimal) + "memory: {offload: null}\n").memory.offload == Offload::kNone);
}

TEST_CASE("something else in a section's place") {
  CHECK(ErrorWith("adapter: lora\n") ==
        "r.yaml:3: error: adapter: found lora, expected a section of keys; did you mean adapter.kind: lora?");
  CHECK(ErrorWith("train:\n  seed:42\n") ==
        "r.yaml:4: error: train: found seed:42, expected a section of keys; put a space after the colon: "
        "`seed: 42`");
  CHECK(ErrorWith("log: [1]\n") == "r.yaml:3: error: log: found a list, expected a section of keys");
  CHECK(ErrorOf("model: m\ndata: {train: d}\n") ==
        "r.yaml:1: error: model: found m, expected a section of keys; did you mean model.path: m?");
}

TEST_CASE("overrides") {
  const Recipe recipe = Load(std::string(kMinimal) + "adapter: {lora_r: 4}\ntrain: {max_steps: 5}\n",
                             {"adapter.lora_r=8", "train.max_steps=null", "train.seed=1", "train.seed=2",
                              "data.train=[a, {path: b}]", "log.hook=run #1: *now", "launch.slurm.nodes=2",
                              "optimizer={name: sgd, learning_rate: 2e-5}"});
  CHECK(recipe.adapter->lora_r == 8);
  CHECK_FALSE(recipe.train.max_steps.has_value());
  CHECK(recipe.train.seed == 2);
  CHECK(recipe.data.train == std::vector<DataSource>{{.path = "a"}, {.path = "b"}});
  CHECK(recipe.log.hook == "run #1: *now");
  CHECK(recipe.launch.slurm.nodes == 2);
  CHECK(recipe.optimizer.name == OptimizerName::kSgd);
  CHECK(recipe.optimizer.learning_rate == 2e-5);
  CHECK_FALSE(Load(std::string(kMinimal) + "adapter: {lora_r: 4}\n", {"adapter=null"}).adapter.has_value());
  CHECK(Load("{}", {"model.path=m", "data.train=d"}).model.path == "m");
}

TEST_CASE("wrong overrides") {
  const auto error = [](const std::string& text) { return ErrorWith("", {text}); };
  CHECK(error("train.seed") ==
        "command line: error: train.seed: expected key=value; write section.key=value");
  CHECK(error("=3") == "command line: error: =3: expected key=value; write section.key=value");
  CHECK(error("train.sede=3") == "command line: error: train.sede: unknown key; did you mean train.seed?");
  CHECK(error("optimiser.learning_rate=3") ==
        "command line: error: optimiser: unknown key; did you mean optimizer?");
  CHECK(error("train.seed=x") ==
        "command line: error: train.seed: found x, expected a whole number of 0 or more");
  CHECK(error("train.seed=") ==
        "command line: error: train.seed: found nothing (null), expected a whole number of 0 or more");
  CHECK(error("train.seed.x=3") ==
        "command line: error: train.seed: found a map of keys, expected a whole number of 0 or more");
  CHECK(error("log.hook=\xE9") ==
        "command line: error: log.hook: found the byte 0xE9, expected UTF-8 text; write it in UTF-8");
  CHECK(error("data.train=[a") ==
        "command line: error: data.train: not valid YAML: a list that opens with [ is not closed; add ]");
  CHECK(error("train=3") ==
        "command line: error: train: found 3, expected a section of keys; did you mean train.num_epochs: 3?");
  CHECK(
      error("data={eval: a, eval: b}") ==
      "command line: error: data.eval: given twice; keep one (a key and its other names count as the same)");
  // A wrong value is reported even where an override replaces it.
  CHECK(ErrorWith("train: {seed: x}\n", {"train.seed=1"}).starts_with("r.yaml:3: error: train.seed"));
}

TEST_CASE("places of keys, for errors found later") {
  const auto loaded = LoadRecipeText("base_model: m\ndata:\n  train: d\n", "r.yaml", {"train.seed=1"});
  REQUIRE(loaded.ok());
  CHECK(FormatError(loaded->At("model.path")) == "r.yaml:1: error: model.path: ");
  CHECK(loaded->At("data.train").line == 3);
  CHECK(loaded->At("train.seed").file == "command line");
  CHECK(loaded->At("optimizer.name").file == "r.yaml");
  CHECK(loaded->At("optimizer.name").line == 0);

  // What lower layers say of a key gets its place; anything else stays as it is.
  const auto placed = [&](ErrorDetail detail) {
    return std::string(loaded->Placed(DataError(detail)).message());
  };
  CHECK(placed({.key = "data.train", .found = "x", .expected = "y"}) ==
        "r.yaml:3: error: data.train: found x, expected y");
  CHECK(ExitCodeOf(loaded->Placed(DataError({.key = "data.train"}))) == 4);
  CHECK(placed({.file = "f", .key = "data.train", .found = "x"}) == "f: error: data.train: found x");
  CHECK(placed({.key = "q_proj", .found = "x"}) == "error: q_proj: found x");
}

TEST_CASE("texts that are no recipe") {
  const std::string expected = "expected a recipe: lines of `key: value`";
  const std::string empty = "r.yaml: error: found nothing: the file is empty, " + expected +
                            "; give at least model.path and data.train";
  CHECK(ErrorOf("") == empty);
  CHECK(ErrorOf("\n# only a comment\n") == empty);
  CHECK(ErrorOf("---\n") == empty);
  CHECK(ErrorOf("- a\n- b\n") ==
        "r.yaml:1: error: found a list, " + expected + "; remove the dash before the first key");
  CHECK(ErrorOf("hello\n") == "r.yaml:1: error: found hello, " + expected);
  CHECK(ErrorOf("\na:1\n") == "r.yaml:2: error: found a:1, " + expected + "; put a space after each colon");
  CHECK(ErrorOf("model: {path: m\ndata: {train: d}\n").starts_with("r.yaml:"));
  CHECK(ErrorOf("model:\n\tpath: m\n") ==
        "r.yaml:2: error: the line is indented by a tab; indent by spaces: YAML does not allow tabs there");
}

TEST_CASE("anchors and merge keys in a recipe") {
  const Recipe recipe = Load(
      "model: {path: m}\ndata:\n  train: [&d {path: d, format: messages}]\n  eval: [{<<: *d, path: e}]\n");
  CHECK(recipe.data.eval == std::vector<DataSource>{{.path = "e", .format = DataFormat::kMessages}});
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    path_ = std::filesystem::temp_directory_path() /
            ("ftune-recipe-test-" + std::to_string(std::rand()) + ".yaml");
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::string FileError(const std::string& text) {
  const TemporaryFile file(text);
  const absl::StatusOr<LoadedRecipe> loaded = LoadRecipe(file.path());
  if (loaded.ok()) return "";
  CHECK(ExitCodeOf(loaded.status()) == 2);
  std::string message(loaded.status().message());
  REQUIRE(message.starts_with(file.path()));
  return message.substr(file.path().size());
}

TEST_CASE("files") {
  CHECK(FileError(kMinimal) == "");
  CHECK(FileError(std::string("\xEF\xBB\xBF") + kMinimal) == "");  // a byte order mark
  CHECK(FileError("model: {path: m}\r\ndata: {train: d}\r\n") == "");
  CHECK(FileError("model: {path: é}\ndata: {train: \xE9}\n") ==
        ":2: error: found the byte 0xE9, expected UTF-8 text; write it in UTF-8");
  CHECK(FileError(std::string("a: 1\nb: \0\n", 10)) ==
        ":2: error: found the control character 0x00, expected UTF-8 text; write it in UTF-8");
  // To yaml-cpp this is the end of the text: the rest would go unread.
  CHECK(FileError(std::string(kMinimal) + "\x04\nx: 1\n") ==
        ":3: error: found the control character 0x04, expected UTF-8 text; write it in UTF-8");
  CHECK(FileError(std::string(2 << 20, '#')) ==
        ": error: found more than 1048576 bytes, expected a recipe; give the recipe's own file");
  CHECK(FileError("").starts_with(": error: found nothing"));

  const absl::StatusOr<LoadedRecipe> missing = LoadRecipe("no/such/recipe.yaml");
  CHECK(missing.status().message().find("no/such/recipe.yaml: error: cannot open: No such file") == 0);
  CHECK(ExitCodeOf(missing.status()) == 2);
  CHECK(RecipeErrorsOf(missing.status()).size() == 1);
  const std::string folder = std::filesystem::temp_directory_path().string();
  const absl::StatusOr<LoadedRecipe> directory = LoadRecipe(folder);
  CHECK(directory.status().message() == folder + ": error: found a folder, expected a regular file");
  CHECK(ExitCodeOf(directory.status()) == 2);
}

TEST_CASE("columns and roles of a dataset, and the audit's limits") {
  const auto load = [](const std::string& data) {
    return LoadRecipeText("model: {path: m}\ndata:\n  train: [{path: d, " + data + "}]\n", "r.yaml");
  };
  const auto loaded = load("columns: {messages: chat, role: who}, roles: {boss: user, critic: critic}");
  REQUIRE_MESSAGE(loaded.ok(), loaded.status().message());
  CHECK(loaded->recipe.data.train[0].columns ==
        std::vector<std::pair<std::string, std::string>>{{"messages", "chat"}, {"role", "who"}});
  CHECK(loaded->recipe.data.train[0].roles ==
        std::vector<std::pair<std::string, std::string>>{{"boss", "user"}, {"critic", "critic"}});
  const auto refused = [&](const std::string& data, const std::string& text) {
    const auto wrong = load(data);
    REQUIRE_FALSE(wrong.ok());
    const std::string message(wrong.status().message());
    INFO(message);
    CHECK(message.find(text) != std::string::npos);
  };
  refused("columns: {mesages: chat}",
          "r.yaml:3: error: data.train[0].columns.mesages: unknown column, expected one of messages, role");
  refused("columns: {mesages: chat}", "did you mean messages?");
  refused("columns: [a]", "data.train[0].columns: found");
  refused("columns: {messages: \"\"}", "data.train[0].columns.messages");
  refused("roles: {bot: asistant}",
          "data.train[0].roles.bot: found asistant, expected one of system, developer");
  refused("roles: {bot: asistant}", "did you mean assistant?");
  const auto audit = LoadRecipeText(
      "model: {path: m}\ndata: {train: d, audit: {max_doubled_bos: 1.5, max_open_turn: 1}}\n", "r.yaml");
  REQUIRE_FALSE(audit.ok());
  CHECK(std::string(audit.status().message()).find("data.audit.max_doubled_bos: found 1.5") !=
        std::string::npos);
  CHECK(std::string(audit.status().message()).find("did you mean") != std::string::npos);
}

}  // namespace
}  // namespace ftune
