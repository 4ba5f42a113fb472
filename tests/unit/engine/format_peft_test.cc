#include <doctest/doctest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/format/peft.h"
#include "tests/unit/base/temp_folder.h"

namespace ftune {
namespace {

using nlohmann::json;

OutputTensor Tensor(const std::string& name, char fill, std::vector<int64_t> shape) {
  int64_t bytes = 4;
  for (const int64_t dim : shape) bytes *= dim;
  return {name, DType::kF32, std::move(shape), [=](std::byte* out) {
            std::memset(out, fill, bytes);
            return absl::OkStatus();
          }};
}

std::vector<OutputTensor> Tensors() {
  return {Tensor("model.layers.0.self_attn.q_proj.lora_B.weight", 'B', {6, 2}),
          Tensor("model.layers.0.self_attn.q_proj.lora_A.weight", 'A', {2, 4})};
}

PeftConfig Config() {
  PeftConfig config;
  config.lora.rank = 2;
  config.lora.alpha = 16;
  config.lora.dropout = 0.05;
  config.lora.target_modules = std::vector<std::string>{"q_proj"};
  config.base_model = "some/model";
  return config;
}

// What CheckSupported says to adapter_config.json with one field set.
absl::Status Supported(const std::string& key, const json& value) {
  TempFolder folder;
  json config = {{"peft_type", "LORA"}, {"target_modules", {"q_proj"}}, {"task_type", "CAUSAL_LM"}};
  config[key] = value;
  WriteBytes(folder / "adapter_config.json", config.dump());
  const auto parsed = ReadPeftConfig(folder.path());
  INFO(parsed.status().message());
  REQUIRE(parsed.ok());
  return CheckSupported(*parsed, "adapter_config.json");
}

absl::Status Refused(const std::string& text) {
  TempFolder folder;
  WriteBytes(folder / "adapter_config.json", text);
  return ReadPeftConfig(folder.path()).status();
}

TEST_CASE("peft: what is written is read") {
  TempFolder folder;
  REQUIRE(WritePeftAdapter(folder / "a/b", Config(), Tensors()).ok());
  const auto adapter = OpenPeftAdapter(folder / "a/b");
  REQUIRE(adapter.ok());
  CHECK(adapter->config.lora.rank == 2);
  CHECK(adapter->config.lora.alpha == 16.0);
  CHECK(adapter->config.lora.dropout == 0.05);
  CHECK(adapter->config.base_model == "some/model");
  CHECK(std::get<std::vector<std::string>>(adapter->config.lora.target_modules) ==
        std::vector<std::string>{"q_proj"});
  REQUIRE(adapter->weights->tensors().size() == 2);
  const SourceTensor* a = adapter->weights->Find("model.layers.0.self_attn.q_proj.lora_A.weight");
  REQUIRE(a != nullptr);
  CHECK(a->shape == std::vector<int64_t>{2, 4});
  CHECK(static_cast<char>(a->bytes[0]) == 'A');

  // As PEFT names and types them.
  const json config = json::parse(ReadBytes(folder / "a/b/adapter_config.json"));
  CHECK(config["peft_type"] == "LORA");
  CHECK(config["task_type"] == "CAUSAL_LM");
  CHECK(config["lora_alpha"].is_number_integer());
  CHECK(config["inference_mode"] == true);
  CHECK(Contains(ReadBytes(folder / "a/b/adapter_model.safetensors"),
                 "\"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight\""));
}

TEST_CASE("peft: targets as a text, rsLoRA, a fractional alpha") {
  TempFolder folder;
  PeftConfig config = Config();
  config.lora.target_modules = std::string("all-linear");
  config.lora.rslora = true;
  config.lora.alpha = 2.5;
  config.base_model = "";
  REQUIRE(WritePeftAdapter(folder.path(), config, Tensors()).ok());
  const auto again = ReadPeftConfig(folder.path());
  REQUIRE(again.ok());
  CHECK(std::get<std::string>(again->lora.target_modules) == "all-linear");
  CHECK(again->lora.rslora);
  CHECK(again->lora.alpha == 2.5);
  CHECK(again->base_model == "");
}

TEST_CASE("peft: every option that ftune has is written and read") {
  PeftConfig config = Config();
  LoraOptions& lora = config.lora;
  lora.rank_pattern = {{"z.*", 3}, {"a", 5}};  // an order that is not the alphabet's
  lora.alpha_pattern = {{"v_proj", 0.5}, {"layers.1.*", 4}};
  lora.exclude_modules = std::vector<std::string>{"layers.0.mlp.up_proj"};
  lora.layers_to_transform = {2, 0};
  lora.layers_pattern = {"layers"};
  lora.dora = lora.rslora = true;
  lora.modules_to_save = {"norm", "lm_head"};
  for (const bool tied : {false, true}) {
    lora.tie_saved = tied;
    TempFolder folder;
    REQUIRE(WritePeftAdapter(folder.path(), config, Tensors()).ok());
    const auto again = ReadPeftConfig(folder.path());
    REQUIRE(again.ok());
    CHECK(again->lora == lora);
    const json written = json::parse(ReadBytes(folder / "adapter_config.json"));
    CHECK(written.contains("ensure_weight_tying") == tied);
  }
}

TEST_CASE("peft: patterns, layers and exclusions that make no sense are named") {
  const auto with = [](const std::string& field) {
    return Refused(R"({"peft_type": "LORA", "target_modules": ["x"], )" + field + "}");
  };
  CHECK(with(R"("rank_pattern": {"a": 4}, "alpha_pattern": {}, "layers_to_transform": 3)").ok());
  CHECK(NotSaid(with(R"("rank_pattern": {"a": 0})"), "rank_pattern.a", "positive") == "");
  CHECK(NotSaid(with(R"("rank_pattern": {"a": "4"})"), "a: ", "an integer") == "");
  CHECK(NotSaid(with(R"("rank_pattern": [4])"), "rank_pattern", "an object") == "");
  CHECK(NotSaid(with(R"("alpha_pattern": {"a": null})"), "a: ") == "");
  CHECK(NotSaid(with(R"("exclude_modules": 4)"), "exclude_modules", "a list") == "");
  CHECK(NotSaid(with(R"("layers_to_transform": ["0"])"), "layers_to_transform", "integers") == "");
  CHECK(NotSaid(with(R"("modules_to_save": [1])"), "modules_to_save", "a string") == "");
  CHECK(NotSaid(Refused(R"({"peft_type": "LORA", "target_modules": "x", "layers_to_transform": [0]})"),
                "layers_to_transform", "a list of target_modules") == "");
}

TEST_CASE("peft: adapters written by PEFT") {
  const std::filesystem::path folder = std::filesystem::path(FTUNE_SOURCE_DIR) / "tests/golden/models";
  for (const char* name : {"llama-lora", "qwen2-lora", "mistral-lora"}) {
    INFO(name);
    const auto adapter = OpenPeftAdapter(folder / name);
    REQUIRE(adapter.ok());
    CHECK(adapter->config.lora.rank == 4);
    CHECK(adapter->config.other_features.empty());
    CHECK(adapter->weights->Find("model.layers.1.mlp.down_proj.lora_B.weight") != nullptr);
  }
}

TEST_CASE("peft: features that ftune does not have are refused by name") {
  const std::pair<const char*, json> features[] = {{"bias", "all"},
                                                   {"lora_bias", true},
                                                   {"layer_replication", {{0, 1}}},
                                                   {"trainable_token_indices", {1, 2}},
                                                   {"target_parameters", {"experts"}},
                                                   {"init_lora_weights", "pissa"},
                                                   {"task_type", "SEQ_CLS"}};
  for (const auto& [key, value] : features) {
    INFO(key);
    CHECK(NotSaid(Supported(key, value), key, "not supported") == "");
    CHECK(Supported(key, nullptr).ok());
  }
  CHECK(Supported("rank_pattern", json::object()).ok());
  CHECK(Supported("layers_to_transform", json::array()).ok());
  CHECK(Supported("init_lora_weights", "gaussian").ok());
  CHECK(Supported("init_lora_weights", true).ok());
  CHECK(Supported("loftq_config", {{"a", 1}}).ok());  // used with init_lora_weights only
  PeftConfig other = Config();
  other.other_features = {{"lora_bias", "true"}};
  TempFolder folder;
  CHECK(NotSaid(WritePeftAdapter(folder.path(), other, Tensors()), "lora_bias") == "");
}

TEST_CASE("peft: what is missing or wrong is named") {
  CHECK(NotSaid(Refused("{\n\"r\" 8}"), "adapter_config.json:2", "not valid JSON") == "");
  CHECK(NotSaid(Refused("[]"), "a JSON object") == "");
  CHECK(NotSaid(Refused("{}"), "peft_type", "missing") == "");
  CHECK(NotSaid(Refused(R"({"peft_type": "IA3"})"), "peft_type", "'IA3'", "LORA") == "");
  CHECK(NotSaid(Refused(R"({"peft_type": "LORA"})"), "target_modules", "found nothing") == "");
  CHECK(NotSaid(Refused(R"({"peft_type": "LORA", "target_modules": [1]})"), "target_modules", "a string") ==
        "");
  CHECK(NotSaid(Refused(R"({"peft_type": "LORA", "target_modules": []})"), "target_modules") == "");
  const auto with = [](const std::string& field) {
    return Refused(R"({"peft_type": "LORA", "target_modules": "x", )" + field + "}");
  };
  CHECK(with(R"("r": 4)").ok());
  CHECK(NotSaid(with(R"("r": 0)"), "r: ", "positive") == "");
  CHECK(NotSaid(with(R"("r": "8")"), "r: ", "an integer") == "");
  CHECK(NotSaid(with(R"("lora_dropout": 1)"), "lora_dropout", "less than 1") == "");
  CHECK(NotSaid(with(R"("lora_dropout": -0.1)"), "lora_dropout") == "");
  CHECK(NotSaid(with(R"("use_dora": 1)"), "use_dora", "true or false") == "");

  TempFolder folder;
  CHECK(NotSaid(OpenPeftAdapter(folder.path()).status(), "not an adapter", "adapter_config.json") == "");
  WriteBytes(folder / "adapter_config.json", R"({"peft_type": "LORA", "target_modules": ["q"]})");
  CHECK(NotSaid(OpenPeftAdapter(folder.path()).status(), "adapter_model.safetensors", "cannot open") == "");
  WriteBytes(folder / "adapter_model.bin", "");
  CHECK(NotSaid(OpenPeftAdapter(folder.path()).status(), "adapter_model.bin", "a pickle") == "");
  const std::string header = R"({"model.q.lora_A.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  WriteBytes(folder / "adapter_model.safetensors", Bytes<uint64_t>(header.size()) + header + "xxxx");
  CHECK(NotSaid(OpenPeftAdapter(folder.path()).status(), "model.q.lora_A.weight", "base_model.model.") == "");
}

}  // namespace
}  // namespace ftune
