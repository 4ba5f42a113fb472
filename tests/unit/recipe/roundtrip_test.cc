#include <doctest/doctest.h>

#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "cmd/recipe/key_table.h"
#include "cmd/recipe/load.h"
#include "cmd/recipe/resolve.h"

namespace ftune {
namespace {

Recipe Minimal() {
  Recipe recipe;
  recipe.model.path = "m";
  recipe.data.train = {{.path = "d.jsonl"}};
  return recipe;
}

// Every key away from its default, with texts that need care.
Recipe Full() {
  Recipe r = Minimal();
  r.output_dir = "runs/a b #1: é";
  r.model = {.path = "true", .revision = "refs/pr/1", .init_from = "null", .added_tokens = {"<a>", "- b"}};
  r.adapter =
      AdapterSection{.kind = AdapterKind::kQlora,
                     .quantize = Quantization::kFp4,
                     .lora_r = 3,
                     .lora_alpha = 0.1 + 0.2,
                     .lora_dropout = 1.0 / 3,
                     .target_modules = {.kind = TargetModules::Kind::kRegex, .regex = ".*\\.(q|v)_\"proj'$"},
                     .rank_pattern = {{"z.*\\.q_proj: x", 3}, {"null", 5}, {"a b", 7}},
                     .alpha_pattern = {{"[kv]_proj", 0.1}, {"a", 4}},
                     .modules_to_save = {"lm_head", "12", ""},
                     .use_rslora = true,
                     .use_dora = true,
                     .loraplus_lr_ratio = 16,
                     .loraplus_lr_embedding = 1e-5};
  r.adapter->modules_to_save.pop_back();
  r.data = {.train = {{.path = "a, b",
                       .name = "null",
                       .split = "a: b",
                       .revision = "#1",
                       .format = DataFormat::kShareGpt,
                       .weight = 1e-7,
                       .epochs = 2.5,
                       .max_samples = 7,
                       .columns = {{"messages", "a: b"}, {"role", "null"}},
                       .roles = {{"a b", "user"}, {"# x", "# x"}}},
                      {.path = "[x]"}},
            .eval = {},
            .val_set_size = {.count = 1},
            .chat_template = "line\nline\t\"x\"\n",
            .chat_template_kwargs = {{"enable_thinking", false},
                                     {"text", "null"},
                                     {"list", {1, 2.5, 2.0, "3", nullptr, "a b", ""}},
                                     {"map", {{"k: x", "line\nline"}, {"n", -7}}}},
            .split_turns = {},
            .train_on_inputs = true,
            .train_on_turns = TrainedTurns::kLast,
            .roles_to_train = {"tool", "a b"},
            .sequence_len = 512,
            .excess_length_strategy = ExcessLength::kTruncate,
            .truncation_side = TruncatedSide::kLeft,
            .packing = false,
            .group_by_length = true,
            .mix = DataMix::kInterleave,
            .on_bad_row = OnBadRow::kSkip,
            .prepared_path = "~/a b",
            .audit = {.max_dropped_rows = 0.125,
                      .max_untrained_samples = 0,
                      .max_doubled_bos = 1.0 / 3,
                      .max_open_turns = 1,
                      .min_trained_tokens = 0.25}};
  r.train = {.global_batch_size = 12,
             .micro_batch_size = 3,
             .gradient_accumulation_steps = 4,
             .num_epochs = 0.7,
             .max_steps = 1,
             .eval_steps = 7,
             .evals_per_epoch = {},
             .eval_on_start = false,
             .early_stopping_patience = 2,
             .sample_prompts = {"- hi", "a: b", "# c"},
             .sample_max_new_tokens = 7,
             .freeze = {},
             .neftune_noise_alpha = 0,
             .label_smoothing = 0.25,
             .seed = std::numeric_limits<int64_t>::max()};
  r.optimizer = {.name = OptimizerName::kMuon,
                 .learning_rate = 2e-5,
                 .beta1 = 0,
                 .beta2 = 0.95,
                 .eps = 5e-324,
                 .momentum = 0,
                 .adjust_lr = AdjustLr::kOriginal,
                 .weight_decay = 0.1,
                 .lr_scheduler = LrSchedulerName::kLinear,
                 .min_lr_ratio = 1,
                 .warmup_ratio = {},
                 .warmup_steps = 0,
                 .max_grad_norm = {}};
  r.precision = {.weights = WeightType::kFp16,
                 .master = MasterWeights::kFp32,
                 .gradients = GradientType::kFp32,
                 .loss_scale = 65536};
  r.parallel = {.data = 2,
                .pipeline = 2,
                .context = 2,
                .zero = 3,
                .shard_size = 2,
                .bucket_size = 4096,
                .persistence_threshold = 0,
                .reshard_after_forward = false,
                .schedule = "my schedule.csv",
                .stages = std::vector<int64_t>{8, 8, 7, 0},
                .compression = CompressionName::kTopK,
                .compression_ratio = 0.25};
  r.memory = {.activation_checkpointing = {.kind = ActivationCheckpointing::Kind::kEveryNth, .every_nth = 2},
              .offload = Offload::kParameters};
  r.checkpoint = {.save_steps = {},
                  .saves_per_epoch = 0.5,
                  .keep_last = 1,
                  .keep_best = true,
                  .keep_every = 100,
                  .async = false,
                  .when_busy = WhenBusy::kSkip,
                  .stop_after = 14100.25};
  r.log = {.every = 10,
           .tensorboard = true,
           .hook = "sh -c 'x | y'",
           .trace_step = 3,
           .metrics_port = 9090,
           .metrics_address = "0.0.0.0"};
  r.launch = {.kind = LaunchKind::kSlurm,
              .device = DeviceKind::kCuda,
              .hosts = {{.host = "n1"}, {.host = "n2", .slots = 4}},
              .hostfile = {},
              .include = "n1@n2:0,1",
              .exclude = "n3",
              .program = "/opt/ftune",
              .copy_program = true,
              .tls = true,
              .ranks_per_host = 8,
              .threads = 3,
              .max_restarts = 0,
              .min_hosts = 1,
              .max_hosts = 2,
              .start_timeout = 0.1,
              .step_timeout = 90061,
              .heartbeat_timeout = 1.5,
              .hang_timeout = 0.25,
              .exclude_stragglers = true,
              .slurm = {.partition = "p",
                        .account = "1",
                        .time = "04:00:00",
                        .nodes = 2,
                        .gpus_per_node = 0,
                        .constraint = "a&b",
                        .extra = {"--exclusive"}}};
  return r;
}

void CheckRoundTrip(const Recipe& recipe) {
  const std::string yaml = ToYaml(recipe);
  const absl::StatusOr<LoadedRecipe> loaded = LoadRecipeText(yaml, "r.yaml");
  INFO(yaml);
  INFO(loaded.status().message());
  REQUIRE(loaded.ok());
  CHECK(loaded->recipe == recipe);
  CHECK(ToYaml(loaded->recipe) == yaml);
}

TEST_CASE("a recipe written and read is the same") {
  CheckRoundTrip(Minimal());
  CheckRoundTrip(Full());
  Recipe adapter = Minimal();
  adapter.adapter.emplace().kind = AdapterKind::kQlora;
  CheckRoundTrip(adapter);
  Recipe frozen = Minimal();
  frozen.train.freeze = {"^model\\.embed", "a|b: c"};
  CheckRoundTrip(frozen);
  Recipe longer = Minimal();
  longer.model.rope_scaling = RopeScaling{.rope_type = RopeType::kLlama3,
                                          .factor = 32.1,
                                          .low_freq_factor = 1.5,
                                          .high_freq_factor = 3.7,
                                          .original_max_position_embeddings = 8192};
  CheckRoundTrip(longer);
  Recipe streamed = Minimal();
  streamed.data.streaming = true;
  streamed.data.streaming_window = 77;
  streamed.train.max_steps = 3;
  CheckRoundTrip(streamed);
  Recipe tensor = Minimal();
  tensor.parallel.tensor = 2;
  tensor.parallel.sequence_parallel = true;
  CheckRoundTrip(tensor);
  Recipe staged = Minimal();
  staged.parallel.pipeline = 2;
  staged.parallel.schedule = "interleaved";
  staged.parallel.virtual_stages = 3;
  CheckRoundTrip(staged);
  Recipe split = Minimal();
  split.data.split_turns = false;
  CheckRoundTrip(split);
}

TEST_CASE(
    "the full recipe of this test differs from the defaults in every key but those that exclude another") {
  const Recipe full = Full();
  for (const RecipeKey& key : RecipeKeys().keys()) {
    if (key.name.starts_with("model.rope_scaling")) continue;  // excludes the adapter
    const bool excluded =
        key.name == "data.eval" || key.name.starts_with("data.streaming") || key.name == "data.split_turns" ||
        key.name == "train.evals_per_epoch" || key.name == "optimizer.warmup_ratio" ||
        key.name == "train.freeze" || key.name == "checkpoint.save_steps" || key.name == "parallel.tensor" ||
        key.name == "parallel.sequence_parallel" || key.name == "parallel.virtual_stages" ||
        key.name == "launch.hostfile" || key.name == "precision.gradients" || key.name == "precision.master";
    CAPTURE(key.name);
    REQUIRE(key.write(full).has_value());
    CHECK((WriteFlow(*key.write(full)) == key.default_value) == excluded);
  }
}

TEST_CASE("a resolved recipe written and read is the same, and resolved already") {
  Recipe with_evaluation = Minimal();
  with_evaluation.adapter.emplace();
  with_evaluation.data.val_set_size = {.share = 0.1};
  for (const Recipe& recipe : {Minimal(), with_evaluation}) {
    LoadedRecipe loaded{.recipe = recipe, .file = "dir/r.yaml"};
    REQUIRE(Resolve(loaded, {.cores = 4}).ok());
    CheckRoundTrip(loaded.recipe);
    LoadedRecipe again = loaded;
    REQUIRE(Resolve(again, {.cores = 64, .has_cuda = true}).ok());
    CHECK(again.recipe == loaded.recipe);
  }
}

TEST_CASE("the written form") {
  Recipe recipe = Minimal();
  recipe.optimizer.learning_rate = 2e-5;
  const std::string yaml = ToYaml(recipe);
  CHECK(yaml.starts_with(
      "output_dir: auto\nmodel:\n  path: m\n  revision: null\n  init_from: null\n  added_tokens: []\n  "
      "rope_scaling: null\n"));
  CHECK(yaml.find("\nadapter: null\n") != std::string::npos);
  CHECK(yaml.find("\n  learning_rate: 2.0e-05\n") != std::string::npos);
  CHECK(yaml.find(
            "\n  train: [{path: d.jsonl, name: null, split: null, revision: null, format: auto, weight: 1, "
            "epochs: null, max_samples: null, columns: {}, roles: {}}]\n") != std::string::npos);
  CHECK(yaml.find("\n  start_timeout: 30m\n") != std::string::npos);
  CHECK(yaml.find("\n  bucket_size: 25MB\n") != std::string::npos);
  CHECK(yaml.find("\n  slurm:\n    partition: null\n") != std::string::npos);
}

TEST_CASE("the recipe of the quickstart loads") {
  const absl::StatusOr<LoadedRecipe> loaded =
      LoadRecipe(FTUNE_SOURCE_DIR "/recipes/quickstart.yaml", {"train.max_steps=2"});
  INFO(loaded.status().message());
  REQUIRE(loaded.ok());
  CheckRoundTrip(loaded->recipe);
}

}  // namespace
}  // namespace ftune
