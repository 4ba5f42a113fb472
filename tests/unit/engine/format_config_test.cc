// config.json to ModelConfig.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/json_file.h"
#include "engine/format/config_reader.h"
#include "tests/unit/base/material.h"
#include "tests/unit/base/temp_folder.h"

namespace ftune {
namespace {

using nlohmann::json;

json Sound(const std::string& model_type) {
  return {{"model_type", model_type}, {"vocab_size", 100},
          {"hidden_size", 64},        {"intermediate_size", 96},
          {"num_hidden_layers", 4},   {"num_attention_heads", 8},
          {"num_key_value_heads", 2}, {"max_position_embeddings", 512}};
}

ModelConfig Parsed(const json& config) {
  const auto model = ParseHfConfig(config, "config.json");
  INFO(model.status().message());
  REQUIRE(model.ok());
  return *model;
}

// `config` with one field set.
json With(json config, const std::string& key, json value) {
  config[key] = std::move(value);
  return config;
}
json Without(json config, const std::string& key) {
  config.erase(key);
  return config;
}
absl::Status Refused(const json& config) { return ParseHfConfig(config, "config.json").status(); }

TEST_CASE("config: sizes and defaults") {
  const ModelConfig model = Parsed(Sound("llama"));
  CHECK(model.model_type == "llama");
  CHECK(model.vocab_size == 100);
  CHECK(model.hidden_size == 64);
  CHECK(model.intermediate_size == 96);
  CHECK(model.num_layers == 4);
  CHECK(model.num_heads == 8);
  CHECK(model.num_kv_heads == 2);
  CHECK(model.head_dim == 8);
  CHECK(model.max_position == 512);
  CHECK(model.norm_eps == 1e-6f);
  CHECK_FALSE(model.tied_head);
  CHECK(model.rope == RopeConfig{});
  CHECK(model.layer_window == std::vector<int64_t>(4, 0));
  CHECK(model.eos_ids.empty());
  CHECK(model.bos_id == -1);

  CHECK(Parsed(With(Sound("llama"), "head_dim", 10)).head_dim == 10);
  CHECK(Parsed(With(Sound("llama"), "head_dim", nullptr)).head_dim == 8);
  CHECK(Parsed(With(Sound("llama"), "tie_word_embeddings", true)).tied_head);
  CHECK(Parsed(With(Sound("llama"), "rms_norm_eps", 1e-5)).norm_eps == 1e-5f);
  CHECK(Parsed(With(Sound("llama"), "hidden_act", "swish")).activation == Activation::kSilu);
}

TEST_CASE("config: key-value heads that are null or absent") {
  CHECK(Parsed(With(Sound("llama"), "num_key_value_heads", nullptr)).num_kv_heads == 8);
  CHECK(Parsed(Without(Sound("llama"), "num_key_value_heads")).num_kv_heads == 8);
  json many = With(Sound("mistral"), "num_attention_heads", 16);
  CHECK(Parsed(With(many, "num_key_value_heads", nullptr)).num_kv_heads == 16);
  CHECK(Parsed(Without(many, "num_key_value_heads")).num_kv_heads == 8);  // MistralConfig's own default
  many = With(Sound("qwen2"), "num_attention_heads", 32);
  many["head_dim"] = 4;
  CHECK(Parsed(Without(many, "num_key_value_heads")).num_kv_heads == 32);
}

TEST_CASE("config: biases of each family") {
  ModelConfig model = Parsed(Sound("llama"));
  CHECK_FALSE((model.qkv_bias || model.output_bias || model.mlp_bias));
  model = Parsed(With(Sound("llama"), "attention_bias", true));
  CHECK((model.qkv_bias && model.output_bias && !model.mlp_bias));
  model = Parsed(With(Sound("llama"), "mlp_bias", true));
  CHECK((!model.qkv_bias && !model.output_bias && model.mlp_bias));
  model = Parsed(Sound("qwen2"));
  CHECK((model.qkv_bias && !model.output_bias && !model.mlp_bias));
  model = Parsed(Sound("mistral"));
  CHECK_FALSE((model.qkv_bias || model.output_bias || model.mlp_bias));
  CHECK(NotSaid(Refused(With(Sound("mistral"), "attention_bias", true)), "attention_bias", "true") == "");
  CHECK(NotSaid(Refused(With(Sound("qwen2"), "mlp_bias", true)), "mlp_bias") == "");
}

TEST_CASE("config: sliding windows") {
  using Windows = std::vector<int64_t>;
  CHECK(Parsed(Sound("mistral")).layer_window == Windows(4, 4096));  // MistralConfig's own default
  CHECK(Parsed(With(Sound("mistral"), "sliding_window", 7)).layer_window == Windows(4, 7));
  CHECK(Parsed(With(Sound("mistral"), "sliding_window", nullptr)).layer_window == Windows(4, 0));
  CHECK(Parsed(With(Sound("llama"), "sliding_window", 7)).layer_window == Windows(4, 0));
  json qwen = With(With(Sound("qwen2"), "sliding_window", 7), "max_window_layers", 3);
  CHECK(Parsed(qwen).layer_window == Windows(4, 0));
  CHECK(Parsed(With(qwen, "use_sliding_window", true)).layer_window == Windows{0, 0, 0, 7});
  qwen["use_sliding_window"] = true;
  qwen["layer_types"] = {"sliding_attention", "full_attention", "full_attention", "sliding_attention"};
  CHECK(Parsed(qwen).layer_window == Windows{7, 0, 0, 7});

  CHECK(NotSaid(Refused(With(Sound("mistral"), "sliding_window", 0)), "sliding_window", "found 0") == "");
  CHECK(NotSaid(Refused(With(qwen, "use_sliding_window", false)), "layer_types", "no sliding window") == "");
  CHECK(NotSaid(Refused(With(qwen, "layer_types", {"full_attention"})), "layer_types", "a list of 4") == "");
  qwen["layer_types"][1] = "linear_attention";
  CHECK(NotSaid(Refused(qwen), "layer_types", "linear_attention", "sliding_attention") == "");
  const json full = json::array({"full_attention", "full_attention", "full_attention", "full_attention"});
  CHECK(Parsed(With(Sound("llama"), "layer_types", full)).layer_window == Windows(4, 0));
  CHECK(NotSaid(Refused(With(Sound("mistral"), "layer_types", full)), "layer_types",
                "every layer of mistral") == "");
}

TEST_CASE("config: rotary positions in both dialects") {
  json old_dialect = With(Sound("llama"), "rope_theta", 500000);
  CHECK(Parsed(old_dialect).rope.theta == 500000.0);
  CHECK(Parsed(With(old_dialect, "rope_scaling", nullptr)).rope.kind == RopeKind::kDefault);
  CHECK(Parsed(With(old_dialect, "rope_scaling", {{"type", "default"}})).rope.kind == RopeKind::kDefault);

  const json linear = {{"type", "linear"}, {"factor", 4}};
  RopeConfig rope = Parsed(With(old_dialect, "rope_scaling", linear)).rope;
  CHECK(rope == RopeConfig{.kind = RopeKind::kLinear, .theta = 500000, .factor = 4});

  json llama3 = {{"rope_type", "llama3"},
                 {"factor", 8.0},
                 {"low_freq_factor", 1.5},
                 {"high_freq_factor", 3},
                 {"original_max_position_embeddings", 64}};
  const RopeConfig expected = {.kind = RopeKind::kLlama3,
                               .theta = 500000,
                               .factor = 8,
                               .low_freq_factor = 1.5,
                               .high_freq_factor = 3,
                               .original_max_position = 64};
  CHECK(Parsed(With(old_dialect, "rope_scaling", llama3)).rope == expected);
  // transformers 5.
  CHECK(Parsed(With(Sound("llama"), "rope_parameters", With(llama3, "rope_theta", 500000.0))).rope ==
        expected);
  CHECK(Parsed(With(old_dialect, "rope_parameters", llama3)).rope == expected);
  // Where the original length does not stand in the settings.
  const json shorter = Without(llama3, "original_max_position_embeddings");
  CHECK(Parsed(With(old_dialect, "rope_scaling", shorter)).rope.original_max_position == 512);
  CHECK(Parsed(With(With(old_dialect, "rope_scaling", shorter), "original_max_position_embeddings", 128))
            .rope.original_max_position == 128);

  const auto scaling = [&](json value) {
    return Refused(With(old_dialect, "rope_scaling", std::move(value)));
  };
  CHECK(NotSaid(scaling({{"type", "mrope"}, {"factor", 4}}), "rope_scaling.type", "'mrope'",
                "longrope or llama3") == "");
  CHECK(NotSaid(scaling({{"type", "linear"}}), "factor", "missing") == "");
  CHECK(NotSaid(scaling({{"type", "linear"}, {"factor", 0}}), "rope_scaling.factor", "positive") == "");
  CHECK(NotSaid(scaling(Without(llama3, "low_freq_factor")), "low_freq_factor", "missing") == "");
  CHECK(NotSaid(scaling(With(llama3, "high_freq_factor", 1.5)), "high_freq_factor",
                "more than low_freq_factor") == "");
  CHECK(NotSaid(scaling("linear"), "rope_scaling", "an object") == "");
  CHECK(NotSaid(scaling({{"type", "linear"}, {"factor", 2}, {"alpha", 3}}), "rope_scaling.alpha",
                "not supported with this rope type") == "");
  CHECK(NotSaid(scaling({{"mrope_section", {1, 2}}}), "rope_scaling.mrope_section") == "");
  CHECK(Parsed(With(old_dialect, "rope_scaling", {{"type", "linear"}, {"factor", 2}, {"beta_fast", nullptr}}))
            .rope.kind == RopeKind::kLinear);
  CHECK(NotSaid(scaling({{"full_attention", {{"rope_type", "default"}}}}), "rope_scaling",
                "for some layers") == "");
  CHECK(NotSaid(Refused(With(old_dialect, "rope_parameters", {{"partial_rotary_factor", 0.5}})),
                "partial_rotary_factor", "0.5") == "");
  CHECK(NotSaid(Refused(With(Sound("llama"), "rope_theta", -1)), "rope_theta", "positive") == "");
}

TEST_CASE("config: yarn, dynamic and longrope") {
  const json base = Sound("llama");
  const auto rope = [&](json scaling) { return Parsed(With(base, "rope_scaling", std::move(scaling))).rope; };
  RopeConfig yarn = rope({{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 128}});
  CHECK(yarn.kind == RopeKind::kYarn);
  CHECK(yarn.original_max_position == 128);
  CHECK(yarn.attention_factor == doctest::Approx(0.1 * std::log(4.0) + 1));
  CHECK((yarn.beta_fast == 32 && yarn.beta_slow == 1 && yarn.truncate));
  yarn = rope({{"rope_type", "yarn"},
               {"original_max_position_embeddings", 128},
               {"mscale", 2.0},
               {"mscale_all_dim", 0.5},
               {"truncate", false}});
  CHECK(yarn.factor == 4.0);  // max_position_embeddings ÷ the original
  CHECK(yarn.attention_factor == doctest::Approx((0.2 * std::log(4.0) + 1) / (0.05 * std::log(4.0) + 1)));
  CHECK_FALSE(yarn.truncate);
  CHECK(rope({{"rope_type", "yarn"}, {"factor", 2}, {"attention_factor", 1.5}}).attention_factor == 1.5);
  const RopeConfig dynamic = rope({{"type", "dynamic"}, {"factor", 2.0}});
  CHECK((dynamic.kind == RopeKind::kDynamic && dynamic.original_max_position == 512));

  json phi = Sound("phi3");
  phi["partial_rotary_factor"] = 0.5;
  phi["original_max_position_embeddings"] = 64;
  phi["rope_scaling"] = {{"type", "su"}, {"short_factor", {1, 2}}, {"long_factor", {3, 4.5}}};
  for (const char* name : {"su", "longrope", "yarn"}) {
    phi["rope_scaling"]["type"] = name;
    const ModelConfig model = Parsed(phi);
    CHECK(model.RotaryDim() == 4);
    CHECK(model.rope.kind == RopeKind::kLongRope);
    CHECK(model.rope.long_factors == std::vector<double>{3, 4.5});
    CHECK(model.rope.factor == 8.0);
    CHECK(model.rope.attention_factor == doctest::Approx(std::sqrt(1 + std::log(8.0) / std::log(64.0))));
  }
  CHECK(Parsed(Without(phi, "original_max_position_embeddings")).rope.original_max_position == 4096);
  phi["rope_scaling"]["short_factor"] = {1};
  CHECK(NotSaid(Refused(phi), "rope_scaling.short_factor", "a list of 2 positive numbers") == "");
  phi["partial_rotary_factor"] = 0.4;
  CHECK(NotSaid(Refused(phi), "partial_rotary_factor", "0.4", "even") == "");
}

TEST_CASE("config: layers that differ in windows and positions") {
  using Windows = std::vector<int64_t>;
  using Ropes = std::vector<LayerRope>;
  constexpr LayerRope kNone = LayerRope::kNone, kGlobal = LayerRope::kGlobal, kLocal = LayerRope::kLocal;
  json gemma2 = With(Sound("gemma2"), "sliding_window", 7);
  CHECK(Parsed(gemma2).layer_window == Windows{7, 0, 7, 0});
  CHECK(NotSaid(Refused(With(gemma2, "sliding_window", nullptr)), "sliding_window", "null") == "");
  json gemma3 = With(With(Sound("gemma3_text"), "sliding_window", 7), "sliding_window_pattern", 3);
  gemma3["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  ModelConfig model = Parsed(gemma3);
  CHECK(model.layer_window == Windows{7, 7, 0, 7});
  CHECK(model.layer_rope == Ropes{kLocal, kLocal, kGlobal, kLocal});
  CHECK(model.rope == RopeConfig{.kind = RopeKind::kLinear, .theta = 1e6, .factor = 8});
  CHECK(model.local_rope == RopeConfig{.theta = 1e4});
  gemma3.erase("rope_scaling");
  gemma3["rope_parameters"] = {
      {"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 5e5}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 5e3}}}};
  model = Parsed(gemma3);
  CHECK((model.rope.theta == 5e5 && model.local_rope.theta == 5e3));
  gemma3["rope_parameters"] = {{"rope_theta", 5e5}};
  CHECK(NotSaid(Refused(gemma3), "rope_parameters", "full_attention") == "");

  json smol = Sound("smollm3");
  CHECK(Parsed(smol).layer_rope == Ropes{kGlobal, kGlobal, kGlobal, kNone});
  CHECK(Parsed(With(smol, "no_rope_layer_interval", 2)).layer_rope == Ropes{kGlobal, kNone, kGlobal, kNone});
  smol["no_rope_layers"] = {0, 1, 1, 0, 1};
  CHECK(Parsed(smol).layer_rope == Ropes{kNone, kGlobal, kGlobal, kNone});
  smol["sliding_window"] = 5;
  CHECK(Parsed(smol).layer_window == Windows(4, 0));
  CHECK(Parsed(With(smol, "use_sliding_window", true)).layer_window == Windows{5, 0, 0, 5});
  CHECK(NotSaid(Refused(With(smol, "no_rope_layers", {0, 1})), "no_rope_layers", "a list of 4") == "");
  CHECK(NotSaid(Refused(With(smol, "no_rope_layers", {0, 1, 2, 0})), "no_rope_layers", "2") == "");
}

TEST_CASE("config: scales, caps and activations") {
  ModelConfig model = Parsed(With(Sound("gemma2"), "query_pre_attn_scalar", 64));
  CHECK((model.attention_scale == 0.125f && model.attention_softcap == 50 && model.logit_softcap == 30));
  CHECK((model.activation == Activation::kGeluTanh && model.tied_head && model.head_dim == 256));
  json gemma = With(With(Sound("gemma2"), "attn_logit_softcapping", nullptr), "final_logit_softcapping", 5.0);
  model = Parsed(gemma);
  CHECK((model.attention_softcap == 0 && model.logit_softcap == 5));
  CHECK(NotSaid(Refused(With(gemma, "final_logit_softcapping", 0)), "final_logit_softcapping", "positive") ==
        "");
  CHECK(NotSaid(Refused(With(Sound("gemma3_text"), "attn_logit_softcapping", 50.0)), "attn_logit_softcapping",
                "not supported") == "");
  CHECK(Parsed(With(Sound("gemma"), "hidden_act", "gelu")).activation == Activation::kGeluTanh);
  CHECK(Parsed(With(Sound("llama"), "hidden_act", "gelu")).activation == Activation::kGelu);
  CHECK(Parsed(Sound("gemma")).attention_scale == 0);

  const json gpt2 = {{"model_type", "gpt2"}, {"vocab_size", 10},  {"n_embd", 8},       {"n_layer", 2},
                     {"n_head", 2},          {"n_positions", 16}, {"n_inner", nullptr}};
  model = Parsed(gpt2);
  CHECK((model.intermediate_size == 32 && model.num_kv_heads == 2 && model.head_dim == 4));
  CHECK((model.qkv_bias && model.output_bias && model.mlp_bias && model.tied_head));
  CHECK((model.max_position == 16 && model.norm_eps == 1e-5f && model.activation == Activation::kGeluTanh));
  CHECK(Parsed(With(Without(gpt2, "n_embd"), "hidden_size", 8)) == model);
  CHECK(NotSaid(Refused(With(gpt2, "scale_attn_weights", false)), "scale_attn_weights", "not supported") ==
        "");
  CHECK(NotSaid(Refused(Without(gpt2, "n_layer")), "n_layer", "missing") == "");
}

TEST_CASE("config: what is missing or impossible is named") {
  for (const char* key : {"model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads"}) {
    INFO(key);
    CHECK(NotSaid(Refused(Without(Sound("llama"), key)), "config.json", key, "missing") == "");
  }
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_key_value_heads", "max_position_embeddings", "head_dim"}) {
    for (const int64_t value : {int64_t{0}, int64_t{-8}, int64_t{1} << 40}) {
      INFO(key, " ", value);
      CHECK(NotSaid(Refused(With(Sound("llama"), key, value)), key, std::to_string(value)) == "");
    }
    CHECK(NotSaid(Refused(With(Sound("llama"), key, "x")), key, "\"x\"", "an integer") == "");
    CHECK(NotSaid(Refused(With(Sound("llama"), key, 8.5)), key, "8.5", "an integer") == "");
  }
  CHECK(NotSaid(Refused(With(Sound("llama"), "num_attention_heads", 0)), "num_attention_heads") == "");
  CHECK(NotSaid(Refused(With(Sound("llama"), "num_attention_heads", 7)), "num_attention_heads", "64") == "");
  CHECK(NotSaid(Refused(With(Sound("llama"), "num_key_value_heads", 3)), "num_key_value_heads", "divisor") ==
        "");
  CHECK(NotSaid(Refused(With(Sound("llama"), "head_dim", 9)), "head_dim", "even") == "");
  CHECK(NotSaid(Refused(With(Sound("llama"), "rms_norm_eps", -1.0)), "rms_norm_eps") == "");
  CHECK(NotSaid(Refused(json::array()), "config.json", "a JSON object") == "");
}

TEST_CASE("config: what ftune does not have is refused by name") {
  CHECK(NotSaid(Refused(Sound("falcon")), "model_type", "'falcon'", "llama, mistral, qwen2") == "");
  CHECK(NotSaid(Refused(With(Sound("llama"), "hidden_act", "relu2")), "hidden_act", "'relu2'", "silu") == "");
  const std::pair<const char*, json> fields[] = {{"quantization_config", {{"bits", 4}}},
                                                 {"partial_rotary_factor", 0.5},
                                                 {"rope_interleaved", true},
                                                 {"use_mrope", true},
                                                 {"num_experts", 8},
                                                 {"num_local_experts", 8},
                                                 {"final_logit_softcapping", 30.0},
                                                 {"logits_scaling", 2},
                                                 {"is_causal", false},
                                                 {"vision_config", {{"depth", 2}}}};
  for (const auto& [key, value] : fields) {
    INFO(key);
    CHECK(NotSaid(Refused(With(Sound("llama"), key, value)), key, "not supported") == "");
    CHECK(Parsed(With(Sound("llama"), key, nullptr)) == Parsed(Sound("llama")));
  }
  json neutral = Sound("llama");
  neutral.update(
      {{"partial_rotary_factor", 1.0}, {"num_experts", 0}, {"is_causal", true}, {"a_new_field", 5}});
  CHECK(Parsed(neutral) == Parsed(Sound("llama")));
}

TEST_CASE("config: token ids, also from generation_config.json") {
  CHECK(Parsed(With(Sound("llama"), "eos_token_id", 2)).eos_ids == std::vector<int32_t>{2});
  CHECK(Parsed(With(Sound("llama"), "eos_token_id", {5, 2, 5})).eos_ids == std::vector<int32_t>{5, 2});
  CHECK(Parsed(With(Sound("llama"), "eos_token_id", nullptr)).eos_ids.empty());
  CHECK(Parsed(With(Sound("llama"), "bos_token_id", 1)).bos_id == 1);
  CHECK(NotSaid(Refused(With(Sound("llama"), "eos_token_id", "x")), "eos_token_id", "\"x\"") == "");
  CHECK(NotSaid(Refused(With(Sound("llama"), "eos_token_id", {1, -1})), "eos_token_id", "-1") == "");

  TempFolder folder;
  WriteBytes(folder / "config.json", With(Sound("llama"), "eos_token_id", 2).dump());
  CHECK(ReadHfConfig(folder / "config.json")->model.eos_ids == std::vector<int32_t>{2});
  WriteBytes(folder / "generation_config.json", R"({"eos_token_id": [7, 2, 9]})");
  CHECK(ReadHfConfig(folder / "config.json")->model.eos_ids == std::vector<int32_t>{2, 7, 9});
  WriteBytes(folder / "generation_config.json", "{\n\"eos_token_id\": [7,\n}");
  const absl::Status status = ReadHfConfig(folder / "config.json").status();
  CHECK(NotSaid(status, "generation_config.json:3", "not valid JSON") == "");
  WriteBytes(folder / "config.json", "{\n\"model_type\": llama}");
  CHECK(NotSaid(ReadHfConfig(folder / "config.json").status(), "config.json:2", "not valid JSON") == "");
}

TEST_CASE("config: real models' files") {
  const auto folder = Material("model_configs");
  if (!folder) return;
  const auto facts = ReadJsonFile(*folder / "facts.json");
  REQUIRE(facts.ok());
  const std::pair<const char*, const char*> known[] = {
      {"hf_style/llama2_7b", "Llama-2-7B"},
      {"hf_style/llama2_13b", "Llama-2-13B"},
      {"hf_style/llama2_70b", "Llama-2-70B"},
      {"executorch_mediatek/llama3-8B-instruct", "Llama-3-8B"},
      {"hf_style/llama3_1_8b", "Llama-3.1-8B"},
      {"hf_style/llama3_1_70b", "Llama-3.1-70B"},
      {"hf_style/llama3_2_1b", "Llama-3.2-1B"},
      {"hf_style/llama3_2_3b", "Llama-3.2-3B"},
      {"executorch_mediatek/Qwen2.5-0.5B-Instruct", "Qwen2.5-0.5B"},
      {"hf_style/mistral_7b", "Mistral-7B-v0.1"},
      {"hf_style/smollm2_135m", "SmolLM2-135M"},
      {"hf_style/smollm2_360m", "SmolLM2-360M"}};
  for (const auto& [file, name] : known) {
    INFO(file);
    const auto read = ReadHfConfig(*folder / (std::string(file) + ".config.json"));
    REQUIRE(read.ok());
    const ModelConfig* model = &read->model;
    const json& fact = (*facts)["models"][name];
    CHECK(fact["hidden_size"] == model->hidden_size);
    CHECK(fact["intermediate_size"] == model->intermediate_size);
    CHECK(fact["num_hidden_layers"] == model->num_layers);
    CHECK(fact["num_attention_heads"] == model->num_heads);
    CHECK(fact["num_key_value_heads"] == model->num_kv_heads);
    CHECK(fact["head_dim"] == model->head_dim);
    CHECK(fact["vocab_size"] == model->vocab_size);
    CHECK(fact["rope_theta"] == model->rope.theta);
    CHECK(fact["attention_bias_qkv"] == model->qkv_bias);
    CHECK(fact["tie_word_embeddings"] == model->tied_head);
    CHECK(fact.contains("rope_scaling") == (model->rope.kind == RopeKind::kLlama3));
    if (fact.contains("rope_scaling")) CHECK(fact["rope_scaling"]["factor"] == model->rope.factor);
    if (fact.contains("sliding_window_size"))
      CHECK(fact["sliding_window_size"] == model->layer_window.front());
  }
}

TEST_CASE("config: every real model's file is read, or refused for a stated reason") {
  const auto folder = Material("model_configs");
  if (!folder) return;
  // The others are of families that ftune has.
  const std::map<std::string, std::vector<std::string>> refused = {
      {"Mixtral-8x7B-v0.1", {"model_type", "'mixtral'"}},
      {"phi-4-mini-reasoning", {"model_type", "'phi4'"}},  // the converter's own name; the model's says phi3
      {"executorch_mediatek/gemma3_1b_it", {"text_config", "a multimodal model"}},
  };
  std::set<std::string> families;
  size_t refusals = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(*folder)) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".config.json")) continue;
    INFO(path);
    const auto read = ReadHfConfig(entry.path());
    const auto reason = std::find_if(refused.begin(), refused.end(), [&](const auto& row) {
      return path.ends_with(row.first + ".config.json");
    });
    CHECK(read.ok() == (reason == refused.end()));
    if (read.ok()) {
      families.insert(read->model.model_type);
    } else {
      ++refusals;
      CHECK(NotSaid(read.status(), reason->second[0], reason->second[1]) == "");
    }
  }
  CHECK(refusals == refused.size());
  CHECK(families ==
        std::set<std::string>{"gemma2", "gemma3_text", "gpt2", "llama", "mistral", "phi3", "qwen2", "qwen3"});
}

}  // namespace
}  // namespace ftune
