#include "engine/format/config_writer.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/json_file.h"
#include "engine/format/families.h"
#include "engine/format/rope_reader.h"

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

// The type's name in config.json.
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

void SetRope(OrderedJson& json, const RopeConfig& rope) {
  OrderedJson scaling = RopeScaling(rope);
  if (!json.contains("rope_parameters")) {
    json["rope_theta"] = rope.theta;
    json["rope_scaling"] = std::move(scaling);
    return;
  }
  if (scaling.is_null()) scaling = {{"rope_type", "default"}};
  scaling["rope_theta"] = rope.theta;
  json["rope_parameters"] = std::move(scaling);
  json.erase("rope_scaling");  // it would win
}

}  // namespace

std::string MakeConfigJson(const ModelConfig& config, DType dtype) {
  const Family& family = *FindFamily(config.model_type);
  OrderedJson json = {{"architectures", OrderedJson::array({family.architecture})},
                      {"model_type", config.model_type}};
  if (family.bias_keys) {
    json["attention_bias"] = config.qkv_bias;
    json["mlp_bias"] = config.mlp_bias;
  }
  json["attention_dropout"] = 0.0;
  json["bos_token_id"] = IdOrNull(config.bos_id);
  json["eos_token_id"] = IdOrList(config.eos_ids);
  json["head_dim"] = config.head_dim;
  json["hidden_act"] = "silu";
  json["hidden_size"] = config.hidden_size;
  json["initializer_range"] = 0.02;
  json["intermediate_size"] = config.intermediate_size;
  json["max_position_embeddings"] = config.max_position;
  json["num_attention_heads"] = config.num_heads;
  json["num_hidden_layers"] = config.num_layers;
  json["num_key_value_heads"] = config.num_kv_heads;
  json["rms_norm_eps"] = Shortest(config.norm_eps);
  json["rope_scaling"] = RopeScaling(config.rope);
  json["rope_theta"] = config.rope.theta;
  if (family.window == WindowRule::kAll) {
    const int64_t window = config.layer_window.empty() ? 0 : config.layer_window.front();
    json["sliding_window"] = window > 0 ? OrderedJson(window) : OrderedJson(nullptr);
  }
  if (family.window == WindowRule::kLayers) json["use_sliding_window"] = false;
  json["tie_word_embeddings"] = config.tied_head;
  json["torch_dtype"] = TorchName(dtype);
  json["use_cache"] = true;
  json["vocab_size"] = config.vocab_size;
  return json.dump(2) + "\n";
}

absl::StatusOr<std::string> UpdateConfigJson(const std::string& config_json, const ModelConfig& config,
                                             DType dtype, const std::string& file) {
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json parsed, ParseJson(config_json, file));
  FTUNE_ASSIGN_OR_RETURN(const RopeConfig rope, ReadRope(parsed, config.max_position, file));
  // Once more, keeping the order of keys.
  OrderedJson json = OrderedJson::parse(config_json);
  SetDType(json, dtype);
  if (rope != config.rope) SetRope(json, config.rope);
  FTUNE_ASSIGN_OR_RETURN(const bool tied, FieldOr<bool>(parsed, "tie_word_embeddings", false, file));
  if (tied != config.tied_head) json["tie_word_embeddings"] = config.tied_head;
  return json.dump(2) + "\n";
}

std::string MakeGenerationConfigJson(const ModelConfig& config) {
  const OrderedJson json = {{"_from_model_config", true},
                            {"bos_token_id", IdOrNull(config.bos_id)},
                            {"eos_token_id", IdOrList(config.eos_ids)}};
  return json.dump(2) + "\n";
}

}  // namespace ftune
