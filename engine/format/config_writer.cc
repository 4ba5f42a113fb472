#include "engine/format/config_writer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/json_file.h"
#include "engine/format/config_reader.h"
#include "engine/format/families.h"

namespace ftune {
namespace {

using OrderedJson = nlohmann::ordered_json;

// A float's shortest decimal form as a double: 1e-05, not 9.999999747378752e-06.
double Shortest(float value) {
  char text[64];
  const char* end = std::to_chars(text, text + sizeof(text), value).ptr;
  double wide = value;
  std::from_chars(text, end, wide);
  return wide;
}

OrderedJson IdOrList(const std::vector<int32_t>& ids) {
  if (ids.empty()) return nullptr;
  if (ids.size() == 1) return ids.front();
  return ids;
}

OrderedJson IdOrNull(int32_t id) { return id >= 0 ? OrderedJson(id) : OrderedJson(nullptr); }

// Null where nothing is scaled.
OrderedJson RopeScaling(const RopeConfig& rope) {
  switch (rope.kind) {
    case RopeKind::kDefault:
      return nullptr;
    case RopeKind::kLinear:
      return {{"rope_type", "linear"}, {"factor", rope.factor}};
    case RopeKind::kDynamic:
      return {{"rope_type", "dynamic"}, {"factor", rope.factor}};
    case RopeKind::kYarn:
      return {{"rope_type", "yarn"},
              {"factor", rope.factor},
              {"original_max_position_embeddings", rope.original_max_position},
              {"attention_factor", rope.attention_factor},
              {"beta_fast", rope.beta_fast},
              {"beta_slow", rope.beta_slow},
              {"truncate", rope.truncate}};
    case RopeKind::kLongRope:
      return {{"rope_type", "longrope"},
              {"factor", rope.factor},
              {"original_max_position_embeddings", rope.original_max_position},
              {"attention_factor", rope.attention_factor},
              {"short_factor", rope.short_factors},
              {"long_factor", rope.long_factors}};
    case RopeKind::kLlama3:
      return {{"rope_type", "llama3"},
              {"factor", rope.factor},
              {"low_freq_factor", rope.low_freq_factor},
              {"high_freq_factor", rope.high_freq_factor},
              {"original_max_position_embeddings", rope.original_max_position}};
  }
  return nullptr;
}

void SetDType(OrderedJson& json, DType dtype) {
  const bool new_dialect = json.contains("rope_parameters");
  const bool has_new = json.contains("dtype");
  const bool has_old = json.contains("torch_dtype");
  if (has_new || (new_dialect && !has_old)) json["dtype"] = TorchName(dtype);
  if (has_old || (!new_dialect && !has_new)) json["torch_dtype"] = TorchName(dtype);
}

// The settings of all layers, or of the global ones where the config has a set for each type of layer.
void SetRope(OrderedJson& json, const RopeConfig& rope) {
  OrderedJson scaling = RopeScaling(rope);
  if (!json.contains("rope_parameters")) {
    json["rope_theta"] = rope.theta;
    json["rope_scaling"] = std::move(scaling);
    return;
  }
  if (scaling.is_null()) scaling = {{"rope_type", "default"}};
  scaling["rope_theta"] = rope.theta;
  OrderedJson& parameters = json["rope_parameters"];
  (parameters.contains("full_attention") ? parameters["full_attention"] : parameters) = std::move(scaling);
  json.erase("rope_scaling");  // it would win
}

const char* ActivationName(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return "silu";
    case Activation::kGeluTanh:
      return "gelu_pytorch_tanh";
    case Activation::kGelu:
      return "gelu";
  }
  return "silu";
}

OrderedJson CapOrNull(float cap) { return cap > 0 ? OrderedJson(Shortest(cap)) : OrderedJson(nullptr); }

// Windows and positions of the layers, where the family's own rule would not give them.
void SetLayers(OrderedJson& json, const Family& family, const ModelConfig& config) {
  const auto window = std::max_element(config.layer_window.begin(), config.layer_window.end());
  const int64_t widest = window == config.layer_window.end() ? 0 : *window;
  if (family.window != WindowRule::kNone) {
    json["sliding_window"] = widest > 0 ? OrderedJson(widest) : OrderedJson(nullptr);
  }
  if (family.window == WindowRule::kFrom || family.window == WindowRule::kNoRope) {
    json["use_sliding_window"] = widest > 0;
  }
  if (widest > 0 && family.window != WindowRule::kAll) {
    OrderedJson types = OrderedJson::array();
    for (const int64_t w : config.layer_window)
      types.push_back(w > 0 ? "sliding_attention" : "full_attention");
    json["layer_types"] = std::move(types);
  }
  if (family.rope == RopeRule::kSome) {
    OrderedJson flags = OrderedJson::array();
    for (int64_t layer = 0; layer < config.num_layers; ++layer) {
      flags.push_back(config.RopeOf(layer) == LayerRope::kNone ? 0 : 1);
    }
    json["no_rope_layers"] = std::move(flags);
  }
}

}  // namespace

std::string TorchName(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return "float16";
    case DType::kBF16:
      return "bfloat16";
    case DType::kF64:
      return "float64";
    default:
      return "float32";
  }
}

std::string MakeConfigJson(const ModelConfig& config, DType dtype) {
  const Family& family = *FindFamily(config.model_type);
  const SizeKeys& keys = family.keys;
  OrderedJson json = {{"architectures", OrderedJson::array({family.hf_class})},
                      {"model_type", config.model_type}};
  if (family.biases == BiasRule::kKeys || family.biases == BiasRule::kAttentionKey) {
    json["attention_bias"] = config.qkv_bias;
  }
  if (family.biases == BiasRule::kKeys) json["mlp_bias"] = config.mlp_bias;
  json["bos_token_id"] = IdOrNull(config.bos_id);
  json["eos_token_id"] = IdOrList(config.eos_ids);
  json[keys.activation] = ActivationName(config.activation);
  json[keys.hidden] = config.hidden_size;
  json["initializer_range"] = 0.02;
  json[keys.intermediate] = config.intermediate_size;
  json[keys.max_position] = config.max_position;
  json[keys.heads] = config.num_heads;
  json[keys.layers] = config.num_layers;
  json[keys.norm_eps] = Shortest(config.norm_eps);
  if (config.architecture->names.positions.empty()) {
    json["attention_dropout"] = 0.0;
    json["head_dim"] = config.head_dim;
    json[keys.kv_heads] = config.num_kv_heads;
    json["rope_scaling"] = RopeScaling(config.rope);
    json["rope_theta"] = config.rope.theta;
  }
  if (family.rope == RopeRule::kLocal) json["rope_local_base_freq"] = config.local_rope.theta;
  if (family.partial_rotary) {
    json["partial_rotary_factor"] =
        static_cast<double>(config.RotaryDim()) / static_cast<double>(config.head_dim);
  }
  if (family.default_original_position > 0) {
    json["original_max_position_embeddings"] =
        config.rope.original_max_position > 0 ? config.rope.original_max_position : config.max_position;
  }
  if (family.attention_softcap) json["attn_logit_softcapping"] = CapOrNull(config.attention_softcap);
  if (family.logit_softcap) json["final_logit_softcapping"] = CapOrNull(config.logit_softcap);
  if (family.query_scalar) {
    json["query_pre_attn_scalar"] =
        std::llround(1.0 / (static_cast<double>(config.attention_scale) * config.attention_scale));
  }
  SetLayers(json, family, config);
  json["tie_word_embeddings"] = config.tied_head;
  json["torch_dtype"] = TorchName(dtype);
  json["use_cache"] = true;
  json["vocab_size"] = config.vocab_size;
  return json.dump(2) + "\n";
}

absl::StatusOr<std::string> UpdateConfigJson(const std::string& config_json, const ModelConfig& config,
                                             DType dtype, const std::string& file) {
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json parsed, ParseJson(config_json, file));
  FTUNE_ASSIGN_OR_RETURN(const ModelConfig before, ParseHfConfig(parsed, file));
  // Once more, keeping the order of keys.
  OrderedJson json = OrderedJson::parse(config_json);
  SetDType(json, dtype);
  if (before.rope != config.rope) SetRope(json, config.rope);
  if (before.vocab_size != config.vocab_size) json["vocab_size"] = config.vocab_size;
  // With dynamic scaling it is the context that the factor is of.
  if (before.max_position != config.max_position && config.rope.kind != RopeKind::kDynamic) {
    json["max_position_embeddings"] = config.max_position;
  }
  if (before.tied_head != config.tied_head) json["tie_word_embeddings"] = config.tied_head;
  return json.dump(2) + "\n";
}

std::string MakeGenerationConfigJson(const ModelConfig& config) {
  const OrderedJson json = {{"_from_model_config", true},
                            {"bos_token_id", IdOrNull(config.bos_id)},
                            {"eos_token_id", IdOrList(config.eos_ids)}};
  return json.dump(2) + "\n";
}

}  // namespace ftune
