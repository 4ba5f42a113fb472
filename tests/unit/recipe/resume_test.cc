#include "cmd/recipe/resume.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/strings.h"
#include "cmd/recipe/errors.h"
#include "cmd/recipe/key_table.h"
#include "cmd/recipe/resolve.h"

namespace ftune {
namespace {

constexpr char kMinimal[] = "model: {path: m}\ndata: {train: d.jsonl}\n";
constexpr char kFile[] = "run/recipe.yaml";
const Environment kHere = {.cores = 8};

LoadedRecipe Begun(const std::string& more, const Environment& environment = kHere) {
  absl::StatusOr<LoadedRecipe> loaded = LoadRecipeText(kMinimal + more, "r.yaml");
  INFO(loaded.status().message());
  REQUIRE(loaded.ok());
  const absl::Status status = Resolve(*loaded, environment);
  INFO(status.message());
  REQUIRE(status.ok());
  return *std::move(loaded);
}

// What a run of that recipe writes.
std::string Written(const std::string& more, const Environment& environment = kHere) {
  return ToYaml(Begun(more, environment));
}

absl::StatusOr<LoadedRecipe> TakenUp(const std::string& text, const std::vector<std::string>& overrides,
                                     const Environment& environment = kHere) {
  absl::StatusOr<LoadedRecipe> loaded =
      TakeUpRecipe(text, kFile, overrides, [&](const LoadedRecipe&) { return environment; });
  if (!loaded.ok()) return loaded;
  if (const absl::Status status = Resolve(*loaded, environment); !status.ok()) return status;
  const absl::StatusOr<LoadedRecipe> run = LoadRunRecipe(text, kFile);
  REQUIRE(run.ok());
  if (const absl::Status status = CheckMayResume(*loaded, run->recipe, kFile); !status.ok()) return status;
  return loaded;
}

LoadedRecipe Resumed(const std::string& text, const std::vector<std::string>& overrides,
                     const Environment& environment = kHere) {
  absl::StatusOr<LoadedRecipe> loaded = TakenUp(text, overrides, environment);
  INFO(loaded.status().message());
  REQUIRE(loaded.ok());
  return *std::move(loaded);
}

std::string Refusal(const std::string& text, const std::vector<std::string>& overrides,
                    const Environment& environment = kHere) {
  const absl::StatusOr<LoadedRecipe> loaded = TakenUp(text, overrides, environment);
  CHECK(ExitCodeOf(loaded.status()) == 2);
  return std::string(loaded.status().message());
}

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

OnResume Of(const std::string& name) {
  const RecipeKey* const key = RecipeKeys().Find(name);
  CAPTURE(name);
  REQUIRE(key != nullptr);
  return key->on_resume;
}

TEST_CASE("what may change when a run goes on") {
  for (const char* key : {"output_dir",
                          "train.num_epochs",
                          "train.max_steps",
                          "train.eval_steps",
                          "train.micro_batch_size",
                          "train.gradient_accumulation_steps",
                          "optimizer.learning_rate",
                          "optimizer.lr_scheduler",
                          "optimizer.warmup_steps",
                          "optimizer.weight_decay",
                          "optimizer.max_grad_norm",
                          "data.eval",
                          "data.prepared_path",
                          "data.audit.max_dropped_rows",
                          "adapter.lora_dropout",
                          "parallel.data",
                          "parallel.tensor",
                          "parallel.pipeline",
                          "parallel.zero",
                          "parallel.schedule",
                          "memory.offload",
                          "memory.activation_checkpointing",
                          "checkpoint.keep_last",
                          "log.every",
                          "launch.threads",
                          "launch.hosts",
                          "launch.slurm.nodes"}) {
    CAPTURE(key);
    CHECK(Of(key) == OnResume::kFree);
  }
  for (const char* key : {"model.path",
                          "model.revision",
                          "model.init_from",
                          "model.added_tokens",
                          "model.rope_scaling.factor",
                          "adapter.kind",
                          "adapter.quantize",
                          "adapter.lora_r",
                          "adapter.lora_alpha",
                          "adapter.target_modules",
                          "adapter.use_dora",
                          "data.train",
                          "data.val_set_size",
                          "data.chat_template",
                          "data.sequence_len",
                          "data.packing",
                          "data.group_by_length",
                          "data.mix",
                          "data.streaming",
                          "data.train_on_inputs",
                          "train.global_batch_size",
                          "train.seed",
                          "train.freeze",
                          "optimizer.name",
                          "optimizer.momentum",
                          "precision.weights",
                          "precision.master",
                          "precision.loss_scale"}) {
    CAPTURE(key);
    CHECK(Of(key) == OnResume::kFixed);
  }
}

constexpr const char* kRecipes[] = {
    "",
    "adapter: {kind: qlora}\n",
    "train: {gradient_accumulation_steps: 4}\n",
    "train: {micro_batch_size: 4}\n",
    "train: {micro_batch_size: 3, gradient_accumulation_steps: 2}\n",
    "parallel: {data: 2, zero: 3}\nlaunch: {threads: 3}\n",
    "parallel: {tensor: auto}\nlaunch: {ranks_per_host: 2}\n",
    "parallel: {pipeline: 2, schedule: zb-v}\ntrain: {eval_steps: 3}\ndata: {train: x, val_set_size: 3}\n",
    "optimizer: {name: muon, warmup_steps: 0}\nprecision: {weights: auto}\n",
};

TEST_CASE("a run's recipe says what it was given") {
  for (const std::string more : kRecipes) {
    // data: may be given a second time, which only some of these do.
    const std::string text = Has(more, "data: {train") ? "model: {path: m}\n" + more : kMinimal + more;
    CAPTURE(text);
    absl::StatusOr<LoadedRecipe> begun = LoadRecipeText(text, "r.yaml");
    REQUIRE(begun.ok());
    const Recipe given = begun->recipe;
    REQUIRE(Resolve(*begun, kHere).ok());
    const std::string written = ToYaml(*begun);
    const absl::StatusOr<LoadedRecipe> run = LoadRunRecipe(written, kFile);
    INFO(run.status().message());
    REQUIRE(run.ok());
    CHECK(run->recipe == begun->recipe);
    CHECK(*run->given == given);
    CHECK(ToYaml(*run) == written);
    // Any reader of recipes takes it for the resolved one.
    const absl::StatusOr<LoadedRecipe> plain = LoadRecipeText(written, kFile);
    REQUIRE(plain.ok());
    CHECK(plain->recipe == begun->recipe);

    LoadedRecipe again = Resumed(written, {});
    again.recipe.output_dir = begun->recipe.output_dir;  // it is where the run is
    CHECK(again.recipe == begun->recipe);
    again.given->output_dir = given.output_dir;
    CHECK(*again.given == given);
    CHECK(again.places.contains("precision.weights") == false);
  }
}

TEST_CASE("the comments of a run's recipe") {
  const std::string written = Written("");
  CHECK(Has(written, "\n  learning_rate: 2.0e-05  # from auto\n"));
  CHECK(Has(written, "\n  warmup_ratio: 0.03  # from null\n"));
  CHECK(Has(Written("adapter: {kind: qlora}\n"), "\n  kind: lora  # from qlora\n"));
  // A text that looks like one is none, and a value that somebody has written over counts as given.
  const std::string text = Written("log: {hook: 'cat  # from auto'}\n");
  CHECK(LoadRunRecipe(text, kFile)->given->log.hook == "cat  # from auto");
  std::string edited = written;
  edited.replace(edited.find("2.0e-05  #"), 7, "3.0e-05");
  CHECK(LoadRunRecipe(edited, kFile)->given->optimizer.learning_rate == std::nullopt);
  edited.replace(edited.find("learning_rate: 3.0e-05  #"), 23, "learning_rate:  3.0e-05");
  CHECK(LoadRunRecipe(edited, kFile)->given->optimizer.learning_rate == 3e-5);
  edited = written;
  edited.replace(edited.find("# from auto"), 11, "# from [{x");
  CHECK(ExitCodeOf(LoadRunRecipe(edited, kFile).status()) == 2);
}

struct MeshCase {
  std::string recipe;
  std::vector<std::string> overrides;
  std::vector<int64_t> axes;   // data, tensor, pipeline, ranks per host
  std::vector<int64_t> batch;  // global, micro, accumulation
};

TEST_CASE("another mesh keeps the batch of all ranks") {
  const std::vector<MeshCase> cases = {
      {"", {}, {1, 1, 1, 1}, {16, 1, 16}},
      {"", {"parallel.tensor=2"}, {1, 2, 1, 2}, {16, 1, 16}},
      {"", {"parallel.data=4", "parallel.zero=3"}, {4, 1, 1, 4}, {16, 1, 4}},
      {"", {"parallel.pipeline=2"}, {1, 1, 2, 2}, {16, 1, 16}},
      {"", {"launch.ranks_per_host=4"}, {4, 1, 1, 4}, {16, 1, 4}},
      {"parallel: {data: 4}\n", {"parallel.data=1"}, {1, 1, 1, 1}, {16, 1, 16}},
      {"parallel: {data: 4}\n", {"parallel.tensor=2"}, {4, 2, 1, 8}, {16, 1, 4}},
      {"parallel: {data: 4}\n", {"launch.ranks_per_host=2"}, {2, 1, 1, 2}, {16, 1, 8}},
      {"launch: {ranks_per_host: 4}\n", {"parallel.tensor=2"}, {2, 2, 1, 4}, {16, 1, 8}},
      {"parallel: {data: 2}\nlaunch: {ranks_per_host: 2}\n", {"parallel.data=4"}, {4, 1, 1, 4}, {16, 1, 4}},
      // A microbatch that is too large for the share of a rank is made smaller, one that fits is kept.
      {"train: {micro_batch_size: 8}\n", {"parallel.data=4"}, {4, 1, 1, 4}, {16, 4, 1}},
      {"train: {micro_batch_size: 3, global_batch_size: 24}\n",
       {"parallel.data=4"},
       {4, 1, 1, 4},
       {24, 3, 2}},
      {"train: {micro_batch_size: 4, global_batch_size: 24}\n",
       {"parallel.data=4"},
       {4, 1, 1, 4},
       {24, 3, 2}},
      {"train: {micro_batch_size: 2, gradient_accumulation_steps: 3}\n",
       {"parallel.data=2"},
       {2, 1, 1, 2},
       {6, 1, 3}},
      {"train: {gradient_accumulation_steps: 4}\n", {"log.every=2"}, {1, 1, 1, 1}, {16, 4, 4}},
      {"", {"train.micro_batch_size=2"}, {1, 1, 1, 1}, {16, 2, 8}},
      {"", {"batch_size=16", "train.gradient_accumulation_steps=2"}, {1, 1, 1, 1}, {16, 8, 2}},
      {"", {"parallel.data=2", "train.gradient_accumulation_steps=2"}, {2, 1, 1, 2}, {16, 4, 2}},
  };
  for (const MeshCase& c : cases) {
    CAPTURE(c.recipe);
    CAPTURE(StrJoin(c.overrides, " "));
    const Recipe recipe = Resumed(Written(c.recipe), c.overrides).recipe;
    const ParallelSection& parallel = recipe.parallel;
    CHECK(std::vector<int64_t>{*parallel.data, *parallel.tensor, *parallel.pipeline,
                               *recipe.launch.ranks_per_host} == c.axes);
    const TrainSection& train = recipe.train;
    CHECK(std::vector<int64_t>{*train.global_batch_size, *train.micro_batch_size,
                               *train.gradient_accumulation_steps} == c.batch);
  }
}

TEST_CASE("ranks that a launcher has started") {
  const Environment two = {.cores = 8, .ranks = 2, .ranks_per_host = 2};
  CHECK(Resumed(Written(""), {}, two).recipe.parallel.data == 2);
  CHECK(Resumed(Written("parallel: {data: 4}\n"), {}, two).recipe.parallel.data == 2);
  CHECK(Resumed(Written("", two), {}).recipe.parallel.data == 1);
  CHECK(Resumed(Written("parallel: {data: 4}\n"), {"parallel.tensor=2"}, two).recipe.parallel.data == 1);
  CHECK(Has(Refusal(Written(""), {"parallel.data=4"}, two), "WORLD_SIZE: found 2, expected"));
  CHECK(Has(Refusal(Written(""), {"parallel.data=3"}), "a multiple of micro_batch_size 1 × parallel.data 3"));
}

TEST_CASE("sizes that are far too large") {
  const std::string written = Written("");
  CHECK(Has(Refusal(written, {"parallel.data=1000000", "parallel.tensor=1000000", "parallel.pipeline=1000000",
                              "parallel.context=1000000"}),
            "at most 1000000 ranks"));
  CHECK(Has(Refusal(written, {"train.micro_batch_size=1000000000", "parallel.data=1000000"}),
            "too large a batch"));
}

TEST_CASE("what another mesh gives no meaning to gives way, unless it is asked for") {
  const std::string staged = Written(
      "parallel: {pipeline: 4, schedule: interleaved, virtual_stages: 2, stages: [1, 2, 3, 4, 5, 6, 7, "
      "8]}\n");
  CHECK(Resumed(staged, {}).recipe.parallel.stages->size() == 8);
  const ParallelSection one = Resumed(staged, {"parallel.pipeline=1"}).recipe.parallel;
  CHECK(one.schedule == "1f1b");
  CHECK(one.virtual_stages == 1);
  CHECK_FALSE(one.stages.has_value());
  const ParallelSection two = Resumed(staged, {"parallel.pipeline=2"}).recipe.parallel;
  CHECK(two.schedule == "interleaved");
  CHECK_FALSE(two.stages.has_value());
  CHECK(Resumed(staged, {"parallel.schedule=gpipe"}).recipe.parallel.virtual_stages == 1);
  CHECK(Has(Refusal(staged, {"parallel.pipeline=1", "parallel.schedule=gpipe"}), "parallel.schedule"));

  const std::string sharded = Written(
      "parallel: {data: 4, tensor: 2, zero: 3, reshard_after_forward: false, sequence_parallel: true}\n");
  CHECK(Resumed(sharded, {"parallel.zero=0"}).recipe.parallel.reshard_after_forward);
  CHECK_FALSE(Resumed(sharded, {"parallel.zero=0"}).recipe.parallel.shard_size.has_value());
  CHECK(Resumed(sharded, {"parallel.data=2"}).recipe.parallel.shard_size == 2);
  CHECK_FALSE(Resumed(sharded, {"parallel.tensor=1"}).recipe.parallel.sequence_parallel);
}

TEST_CASE("values that may change") {
  const Recipe recipe =
      Resumed(Written("optimizer: {learning_rate: 1e-3}\n"),
              {"optimizer.learning_rate=auto", "optimizer.warmup_steps=7", "train.max_steps=9"})
          .recipe;
  CHECK(recipe.optimizer.learning_rate == 2e-5);
  CHECK_FALSE(recipe.optimizer.warmup_ratio.has_value());
  CHECK(recipe.train.max_steps == 9);
}

TEST_CASE("all forbidden changes are refused at once, with both values") {
  const std::string written = Written("adapter: {lora_r: 4}\n");
  const std::string message =
      Refusal(written, {"train.seed=7", "optimizer.learning_rate=1", "adapter.lora_r=8", "batch_size=32",
                        "precision.weights=bf16", "data.train=[x]"});
  CHECK(Has(message, "train.seed: a run goes on with what it began with; found 7, expected 42, as in run/"));
  CHECK(Has(message, "adapter.lora_r: a run goes on with what it began with; found 8, expected 4, as in "));
  CHECK(
      Has(message, "train.global_batch_size: a run goes on with what it began with; found 32, expected 16"));
  CHECK(Has(message, "found bf16, expected fp32"));
  CHECK(Has(message, "data.train: "));
  CHECK(Has(message, "model.init_from"));
  CHECK_FALSE(Has(message, "learning_rate"));
  CHECK_FALSE(Has(message, "lora_alpha"));
  CHECK(Has(Refusal(written, {"adapter=null"}),
            "adapter: a run goes on with what it began with; found nothing"));
  CHECK(Has(Refusal(Written(""), {"adapter.lora_r=8"}), "adapter: "));
  // The same value again is no change.
  CHECK(Resumed(written, {"train.seed=42", "precision.weights=fp32"}).recipe.train.seed == 42);
}

TEST_CASE("evaluation data stays where the best loss decides") {
  const std::string with_eval = "model: {path: m}\ndata: {train: d.jsonl, eval: e.jsonl}\n";
  for (const bool stops_early : {false, true}) {
    absl::StatusOr<LoadedRecipe> begun =
        LoadRecipeText(with_eval + (stops_early ? "train: {early_stopping_patience: 2}\n" : ""), "r.yaml");
    REQUIRE(begun.ok());
    REQUIRE(Resolve(*begun, kHere).ok());
    CHECK(TakenUp(ToYaml(*begun), {"data.eval=[f.jsonl]"}).ok() == !stops_early);
  }
}

absl::StatusOr<LoadedRecipe> Followed(const std::string& run_recipe, const std::string& recipe,
                                      const Environment& environment = kHere) {
  const absl::StatusOr<LoadedRecipe> run = LoadRunRecipe(Written(run_recipe), kFile);
  REQUIRE(run.ok());
  absl::StatusOr<LoadedRecipe> given = LoadRecipeText(kMinimal + recipe, "r.yaml");
  REQUIRE(given.ok());
  if (const absl::Status status = FollowRun(*given, *run, [&](const LoadedRecipe&) { return environment; });
      !status.ok())
    return status;
  if (const absl::Status status = Resolve(*given, environment); !status.ok()) return status;
  if (const absl::Status status = CheckMayResume(*given, run->recipe, kFile); !status.ok()) return status;
  return given;
}

TEST_CASE("a recipe for a run that is there") {
  for (const std::string more : kRecipes) {
    if (Has(more, "data: {train")) continue;
    CAPTURE(more);
    const absl::StatusOr<LoadedRecipe> same = Followed(more, more);
    INFO(same.status().message());
    REQUIRE(same.ok());
    CHECK(same->recipe == Begun(more).recipe);
    CHECK(ToYaml(*same) == Written(more));
  }
  // Other numbers of ranks leave the batch, which was auto, as the run has it.
  const Environment four = {.cores = 8, .ranks = 4, .ranks_per_host = 4};
  const absl::StatusOr<LoadedRecipe> wider = Followed("train: {micro_batch_size: 8}\n", "", four);
  REQUIRE(wider.ok());
  CHECK(wider->recipe.train.global_batch_size == 16);
  CHECK(wider->recipe.train.micro_batch_size == 4);
  CHECK(Followed("", "optimizer: {learning_rate: 1e-3}\n")->recipe.optimizer.learning_rate == 1e-3);
  CHECK(Followed("optimizer: {learning_rate: 1e-3}\n", "")->recipe.optimizer.learning_rate == 2e-5);
  const std::string refused(Followed("", "train: {seed: 1, global_batch_size: 8}\n").status().message());
  CHECK(Has(refused, "r.yaml:3: error: train.seed: a run goes on with what it began with; found 1"));
  CHECK(Has(refused, "train.global_batch_size"));
  CHECK(Has(std::string(Followed("adapter: {lora_r: 4}\n", "").status().message()), "adapter: "));
  CHECK(Has(std::string(Followed("", "adapter: {lora_r: 4}\n").status().message()), "adapter: "));
}

TEST_CASE("what was found out later is kept: a sequence length that the model has capped") {
  LoadedRecipe begun = Begun("train: {seed: 3}\n");
  begun.recipe.data.sequence_len = 512;
  const std::string written = ToYaml(begun);
  CHECK(Has(written, "sequence_len: 512  # from 2048"));
  CHECK(Resumed(written, {}).recipe.data.sequence_len == 512);
  CHECK(ToYaml(Resumed(written, {})).find("sequence_len: 512  # from 2048") != std::string::npos);
  const absl::StatusOr<LoadedRecipe> run = LoadRunRecipe(written, kFile);
  LoadedRecipe given =
      *LoadRecipeText(std::string(kMinimal) + "max_length: 2048\ntrain: {seed: 3}\n", "r.yaml");
  REQUIRE(FollowRun(given, *run, [](const LoadedRecipe&) { return kHere; }).ok());
  CHECK(given.recipe.data.sequence_len == 512);
}

TEST_CASE("a recipe.yaml that is damaged") {
  std::string written = Written("");
  CHECK(ExitCodeOf(
            LoadRunRecipe(written.substr(0, written.find(": ", written.size() / 2)), kFile).status()) == 2);
  CHECK(ExitCodeOf(LoadRunRecipe("", kFile).status()) == 2);
  written.replace(written.find("seed: 42"), 8, "seed: -1");
  CHECK(Has(std::string(LoadRunRecipe(written, kFile).status().message()), "run/recipe.yaml:"));
}

}  // namespace
}  // namespace ftune
