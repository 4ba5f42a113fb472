#include "engine/format/config_reader.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/folder.h"
#include "base/json_file.h"
#include "base/strings.h"
#include "engine/format/families.h"
#include "engine/format/neutral_fields.h"
#include "engine/format/rope_reader.h"

namespace ftune {
namespace {

using nlohmann::json;

absl::Status KeyError(const std::string& file, const std::string& key, std::string found,
                      std::string expected, std::string message = "") {
  return DataError({.file = file,
                    .key = key,
                    .message = std::move(message),
                    .found = std::move(found),
                    .expected = std::move(expected)});
}

// null and an absent key are not the same for transformers: only the latter gets the class's default.
absl::StatusOr<int64_t> IntWithDefault(const json& config, const std::string& key, int64_t if_absent,
                                       int64_t if_null, const std::string& file) {
  if (!config.contains(key)) return if_absent;
  return FieldOr<int64_t>(config, key, if_null, file);
}

absl::StatusOr<const Family*> ReadFamily(const json& config, const std::string& file) {
  FTUNE_ASSIGN_OR_RETURN(const std::string model_type,
                         RequiredField<std::string>(config, "model_type", file));
  const Family* family = FindFamily(model_type);
  if (family == nullptr) {
    return KeyError(file, "model_type", StrCat("'", model_type, "'"), FamilyNames(),
                    "the model family is not supported");
  }
  return family;
}

absl::Status ReadSizes(const json& config, const Family& family, const std::string& file,
                       ModelConfig& model) {
  struct Size {
    const char* key;
    int64_t* value;
  };
  for (const Size& size :
       {Size{"vocab_size", &model.vocab_size}, Size{"hidden_size", &model.hidden_size},
        Size{"intermediate_size", &model.intermediate_size}, Size{"num_hidden_layers", &model.num_layers},
        Size{"num_attention_heads", &model.num_heads}}) {
    FTUNE_ASSIGN_OR_RETURN(*size.value, RequiredField<int64_t>(config, size.key, file));
  }
  const int64_t absent_kv = family.default_kv_heads > 0 ? family.default_kv_heads : model.num_heads;
  FTUNE_ASSIGN_OR_RETURN(model.num_kv_heads,
                         IntWithDefault(config, "num_key_value_heads", absent_kv, model.num_heads, file));
  FTUNE_ASSIGN_OR_RETURN(model.head_dim, FieldOr<int64_t>(config, "head_dim", 0, file));
  if (!config.contains("head_dim") || config["head_dim"].is_null()) {
    if (model.num_heads <= 0 || model.hidden_size % model.num_heads != 0) {
      return KeyError(file, "num_attention_heads", StrCat(model.num_heads),
                      StrCat("a divisor of hidden_size, ", model.hidden_size, ", or an explicit head_dim"));
    }
    model.head_dim = model.hidden_size / model.num_heads;
  }
  FTUNE_ASSIGN_OR_RETURN(model.max_position, FieldOr<int64_t>(config, "max_position_embeddings",
                                                              family.default_max_position, file));
  FTUNE_ASSIGN_OR_RETURN(const double eps, FieldOr<double>(config, "rms_norm_eps", 1e-6, file));
  model.norm_eps = static_cast<float>(eps);
  return absl::OkStatus();
}

absl::Status ReadActivation(const json& config, const std::string& file, ModelConfig& model) {
  FTUNE_ASSIGN_OR_RETURN(const std::string name, FieldOr<std::string>(config, "hidden_act", "silu", file));
  if (name != "silu" && name != "swish") {
    return KeyError(file, "hidden_act", StrCat("'", name, "'"), "silu", "the activation is not supported");
  }
  model.activation = Activation::kSilu;
  return absl::OkStatus();
}

absl::Status ReadBiases(const json& config, const Family& family, const std::string& file,
                        ModelConfig& model) {
  model.qkv_bias = family.qkv_bias_always;
  if (family.bias_keys) {
    FTUNE_ASSIGN_OR_RETURN(model.qkv_bias, FieldOr<bool>(config, "attention_bias", false, file));
    model.output_bias = model.qkv_bias;
    FTUNE_ASSIGN_OR_RETURN(model.mlp_bias, FieldOr<bool>(config, "mlp_bias", false, file));
  }
  FTUNE_ASSIGN_OR_RETURN(model.tied_head, FieldOr<bool>(config, "tie_word_embeddings", false, file));
  return absl::OkStatus();
}

// layer_types as one flag a layer: true where the window applies. Empty if the key is absent.
absl::StatusOr<std::vector<bool>> ReadLayerTypes(const json& config, int64_t num_layers,
                                                 const std::string& file) {
  std::vector<bool> sliding;
  const auto types = config.find("layer_types");
  if (types == config.end() || types->is_null()) return sliding;
  if (!types->is_array() || static_cast<int64_t>(types->size()) != num_layers) {
    return KeyError(file, "layer_types", Excerpt(*types),
                    StrCat("a list of ", num_layers, " (num_hidden_layers)"));
  }
  for (const json& type : *types) {
    if (type != "full_attention" && type != "sliding_attention") {
      return KeyError(file, "layer_types", Excerpt(type), "full_attention or sliding_attention",
                      "the layer type is not supported");
    }
    sliding.push_back(type == "sliding_attention");
  }
  return sliding;
}

absl::Status ReadWindows(const json& config, const Family& family, const std::string& file,
                         ModelConfig& model) {
  const size_t layers = static_cast<size_t>(model.num_layers);
  FTUNE_ASSIGN_OR_RETURN(const std::vector<bool> types, ReadLayerTypes(config, model.num_layers, file));
  const bool some_full = std::count(types.begin(), types.end(), false) > 0;
  const bool some_sliding = std::count(types.begin(), types.end(), true) > 0;
  model.layer_window.assign(layers, 0);

  int64_t window = 0;
  if (family.window != WindowRule::kNone) {
    FTUNE_ASSIGN_OR_RETURN(window, IntWithDefault(config, "sliding_window", family.default_window, 0, file));
    if (config.contains("sliding_window") && !config["sliding_window"].is_null() && window <= 0) {
      return KeyError(file, "sliding_window", StrCat(window), "a positive integer or null");
    }
  }
  if (family.window == WindowRule::kLayers) {
    FTUNE_ASSIGN_OR_RETURN(const bool use, FieldOr<bool>(config, "use_sliding_window", false, file));
    if (!use) window = 0;
  }
  if (some_sliding && window == 0) {
    return KeyError(file, "layer_types", "sliding_attention",
                    "full_attention, since no sliding window is in use");
  }
  if (window == 0) return absl::OkStatus();

  if (family.window == WindowRule::kAll) {
    if (some_full) {
      return KeyError(file, "layer_types", "full_attention",
                      StrCat("sliding_attention for every layer of ", family.model_type));
    }
    model.layer_window.assign(layers, window);
    return absl::OkStatus();
  }
  FTUNE_ASSIGN_OR_RETURN(const int64_t first, FieldOr<int64_t>(config, "max_window_layers", 28, file));
  for (size_t layer = 0; layer < layers; ++layer) {
    const bool sliding = types.empty() ? static_cast<int64_t>(layer) >= first : types[layer];
    if (sliding) model.layer_window[layer] = window;
  }
  return absl::OkStatus();
}

// An id, a list of ids or null. Ids already there are not repeated.
absl::Status AddTokenIds(const json& config, const std::string& key, const std::string& file,
                         std::vector<int32_t>& ids) {
  const auto field = config.find(key);
  if (field == config.end() || field->is_null()) return absl::OkStatus();
  for (const json& id : field->is_array() ? *field : json::array({*field})) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX) {
      return KeyError(file, key, Excerpt(id), "a token id or a list of them");
    }
    const int32_t value = id.get<int32_t>();
    if (std::find(ids.begin(), ids.end(), value) == ids.end()) ids.push_back(value);
  }
  return absl::OkStatus();
}

absl::Status ReadTokenIds(const json& config, const std::string& file, ModelConfig& model) {
  FTUNE_RETURN_IF_ERROR(AddTokenIds(config, "eos_token_id", file, model.eos_ids));
  std::vector<int32_t> bos;
  FTUNE_RETURN_IF_ERROR(AddTokenIds(config, "bos_token_id", file, bos));
  if (!bos.empty()) model.bos_id = bos.front();
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckModelConfig(const ModelConfig& config, const std::string& file) {
  struct Size {
    const char* key;
    int64_t value;
    int64_t max = INT32_MAX;  // low enough that products of two sizes cannot overflow
  };
  constexpr int64_t kMaxLayers = 65536;
  for (const Size& size :
       {Size{"vocab_size", config.vocab_size}, Size{"hidden_size", config.hidden_size},
        Size{"intermediate_size", config.intermediate_size},
        Size{"num_hidden_layers", config.num_layers, kMaxLayers},
        Size{"num_attention_heads", config.num_heads}, Size{"num_key_value_heads", config.num_kv_heads},
        Size{"head_dim", config.head_dim}, Size{"max_position_embeddings", config.max_position}}) {
    if (size.value <= 0 || size.value > size.max) {
      return KeyError(file, size.key, StrCat(size.value), StrCat("an integer from 1 to ", size.max));
    }
  }
  if (config.num_heads % config.num_kv_heads != 0) {
    return KeyError(file, "num_key_value_heads", StrCat(config.num_kv_heads),
                    StrCat("a divisor of num_attention_heads, ", config.num_heads));
  }
  if (config.head_dim % 2 != 0) {
    return KeyError(file, "head_dim", StrCat(config.head_dim), "an even number, for rotary positions");
  }
  if (config.num_heads * config.head_dim > INT32_MAX) {
    return KeyError(file, "head_dim", StrCat(config.head_dim),
                    StrCat("num_attention_heads * head_dim below ", INT32_MAX));
  }
  if (!(config.norm_eps >= 0) || !std::isfinite(config.norm_eps)) {
    return KeyError(file, "rms_norm_eps", StrCat(config.norm_eps), "a small positive number");
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelConfig> ParseHfConfig(const json& config, const std::string& file) {
  if (!config.is_object()) {
    return DataError({.file = file, .found = Excerpt(config), .expected = "a JSON object"});
  }
  FTUNE_ASSIGN_OR_RETURN(const Family* family, ReadFamily(config, file));
  FTUNE_RETURN_IF_ERROR(CheckNeutralFields(config, *family, file));
  ModelConfig model;
  model.model_type = std::string(family->model_type);
  FTUNE_RETURN_IF_ERROR(ReadSizes(config, *family, file, model));
  FTUNE_RETURN_IF_ERROR(CheckModelConfig(model, file));
  FTUNE_RETURN_IF_ERROR(ReadActivation(config, file, model));
  FTUNE_RETURN_IF_ERROR(ReadBiases(config, *family, file, model));
  FTUNE_RETURN_IF_ERROR(ReadWindows(config, *family, file, model));
  FTUNE_RETURN_IF_ERROR(ReadTokenIds(config, file, model));
  FTUNE_ASSIGN_OR_RETURN(model.rope, ReadRope(config, model.max_position, file));
  return model;
}

absl::StatusOr<ModelConfig> ReadHfConfig(const std::filesystem::path& config_json) {
  FTUNE_ASSIGN_OR_RETURN(const json config, ReadJsonFile(config_json));
  FTUNE_ASSIGN_OR_RETURN(ModelConfig model, ParseHfConfig(config, config_json.string()));
  const std::filesystem::path generation = config_json.parent_path() / "generation_config.json";
  if (Exists(generation)) {
    FTUNE_ASSIGN_OR_RETURN(const json fields, ReadJsonFile(generation));
    FTUNE_RETURN_IF_ERROR(AddTokenIds(fields, "eos_token_id", generation.string(), model.eos_ids));
  }
  return model;
}

}  // namespace ftune
