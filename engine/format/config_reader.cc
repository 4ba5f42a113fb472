#include "engine/format/config_reader.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/folder.h"
#include "base/json_file.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "engine/format/families.h"
#include "engine/format/layer_reader.h"
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

bool IsAbsentOrNull(const json& config, const char* key) {
  return !config.contains(key) || config[key].is_null();
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

// The family's keys, or the usual name where that is there instead (transformers' attribute_map).
SizeKeys KeysIn(const json& config, const Family& family) {
  constexpr SizeKeys kUsual;
  SizeKeys keys = family.keys;
  for (const char* SizeKeys::*key :
       {&SizeKeys::hidden, &SizeKeys::layers, &SizeKeys::heads, &SizeKeys::max_position}) {
    if (!config.contains(keys.*key) && config.contains(kUsual.*key)) keys.*key = kUsual.*key;
  }
  return keys;
}

absl::Status ReadSizes(const json& config, const Family& family, const std::string& file,
                       ModelConfig& model) {
  const SizeKeys keys = KeysIn(config, family);
  struct Size {
    const char* key;
    int64_t* value;
  };
  for (const Size& size : {Size{"vocab_size", &model.vocab_size}, Size{keys.hidden, &model.hidden_size},
                           Size{keys.layers, &model.num_layers}, Size{keys.heads, &model.num_heads}}) {
    FTUNE_ASSIGN_OR_RETURN(*size.value, RequiredField<int64_t>(config, size.key, file));
  }
  if (family.default_intermediate > 0) {
    FTUNE_ASSIGN_OR_RETURN(
        model.intermediate_size,
        FieldOr<int64_t>(config, keys.intermediate, family.default_intermediate * model.hidden_size, file));
  } else {
    FTUNE_ASSIGN_OR_RETURN(model.intermediate_size, RequiredField<int64_t>(config, keys.intermediate, file));
  }
  const int64_t absent_kv = family.default_kv_heads > 0 ? family.default_kv_heads : model.num_heads;
  FTUNE_ASSIGN_OR_RETURN(model.num_kv_heads,
                         IntWithDefault(config, keys.kv_heads, absent_kv, model.num_heads, file));
  FTUNE_ASSIGN_OR_RETURN(model.head_dim,
                         IntWithDefault(config, "head_dim", family.default_head_dim, 0, file));
  if (model.head_dim == 0 && IsAbsentOrNull(config, "head_dim")) {
    if (model.num_heads <= 0 || model.hidden_size % model.num_heads != 0) {
      return KeyError(
          file, keys.heads, StrCat(model.num_heads),
          StrCat("a divisor of ", keys.hidden, ", ", model.hidden_size, ", or an explicit head_dim"));
    }
    model.head_dim = model.hidden_size / model.num_heads;
  }
  FTUNE_ASSIGN_OR_RETURN(model.max_position,
                         FieldOr<int64_t>(config, keys.max_position, family.default_max_position, file));
  FTUNE_ASSIGN_OR_RETURN(const double eps,
                         FieldOr<double>(config, keys.norm_eps, family.default_norm_eps, file));
  model.norm_eps = static_cast<float>(eps);
  return absl::OkStatus();
}

struct ActivationName {
  const char* name;
  Activation activation;
};
constexpr ActivationName kActivations[] = {
    {"silu", Activation::kSilu},          {"swish", Activation::kSilu},
    {"gelu_new", Activation::kGeluTanh},  {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh}, {"gelu", Activation::kGelu},
};

absl::Status ReadActivation(const json& config, const Family& family, const std::string& file,
                            ModelConfig& model) {
  model.activation = family.default_activation;
  const char* key = family.keys.activation;
  if (IsAbsentOrNull(config, key)) return absl::OkStatus();
  FTUNE_ASSIGN_OR_RETURN(const std::string name, RequiredField<std::string>(config, key, file));
  std::vector<std::string_view> names;
  for (const ActivationName& row : kActivations) {
    names.push_back(row.name);
    if (name != row.name) continue;
    model.activation = row.activation;
    // Gemma's first configs say gelu and mean its approximation (configuration_gemma.py).
    if (family.model_type == "gemma" && name == "gelu") model.activation = Activation::kGeluTanh;
    return absl::OkStatus();
  }
  return KeyError(file, key, StrCat("'", name, "'"), StrJoin(names, ", "), "the activation is not supported");
}

absl::Status ReadBiases(const json& config, const Family& family, const std::string& file,
                        ModelConfig& model) {
  model.qkv_bias = family.biases == BiasRule::kQueryKeyValue || family.biases == BiasRule::kAll;
  model.output_bias = model.mlp_bias = family.biases == BiasRule::kAll;
  if (family.biases == BiasRule::kAttentionKey || family.biases == BiasRule::kKeys) {
    FTUNE_ASSIGN_OR_RETURN(model.qkv_bias, FieldOr<bool>(config, "attention_bias", false, file));
    model.output_bias = model.qkv_bias;
  }
  if (family.biases == BiasRule::kKeys) {
    FTUNE_ASSIGN_OR_RETURN(model.mlp_bias, FieldOr<bool>(config, "mlp_bias", false, file));
  }
  FTUNE_ASSIGN_OR_RETURN(model.tied_head,
                         FieldOr<bool>(config, "tie_word_embeddings", family.default_tied, file));
  return absl::OkStatus();
}

// A soft cap that a family honours; null turns it off, an absent key leaves the default.
absl::StatusOr<float> ReadSoftcap(const json& config, const char* key, double if_absent,
                                  const std::string& file) {
  if (!config.contains(key)) return static_cast<float>(if_absent);
  if (config[key].is_null()) return 0.0f;
  FTUNE_ASSIGN_OR_RETURN(const double cap, RequiredField<double>(config, key, file));
  if (!(cap > 0) || !std::isfinite(cap)) {
    return KeyError(file, key, StrCat(cap), "a positive number or null");
  }
  return static_cast<float>(cap);
}

absl::Status ReadScales(const json& config, const Family& family, const std::string& file,
                        ModelConfig& model) {
  if (family.attention_softcap) {
    FTUNE_ASSIGN_OR_RETURN(model.attention_softcap, ReadSoftcap(config, "attn_logit_softcapping",
                                                                family.default_attention_softcap, file));
  }
  if (family.logit_softcap) {
    FTUNE_ASSIGN_OR_RETURN(model.logit_softcap, ReadSoftcap(config, "final_logit_softcapping",
                                                            family.default_logit_softcap, file));
  }
  if (!family.query_scalar) return absl::OkStatus();
  constexpr double kDefault = 256.0;
  FTUNE_ASSIGN_OR_RETURN(const double scalar,
                         FieldOr<double>(config, "query_pre_attn_scalar", kDefault, file));
  if (!(scalar > 0) || !std::isfinite(scalar)) {
    return KeyError(file, "query_pre_attn_scalar", StrCat(scalar), "a positive number");
  }
  model.attention_scale = static_cast<float>(1.0 / std::sqrt(scalar));
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

constexpr char kGemma3Wrapper[] = "gemma3";

// The text part of a multimodal config as that of a text model, keeping the order of keys.
absl::StatusOr<std::string> TextConfig(const std::string& text, const json& config, const std::string& file) {
  const auto part = config.find("text_config");
  if (part == config.end() || !part->is_object()) {
    return KeyError(
        file, "text_config", part == config.end() ? "nothing" : Excerpt(*part), "the text model's settings",
        StrCat("model_type ", kGemma3Wrapper, " is a multimodal model; a text model is gemma3_text"));
  }
  const auto whole = nlohmann::ordered_json::parse(text);
  nlohmann::ordered_json own = {{"architectures", {"Gemma3ForCausalLM"}}, {"model_type", "gemma3_text"}};
  for (const auto& [key, value] : whole["text_config"].items()) own[key] = value;
  own["model_type"] = "gemma3_text";
  for (const char* key :
       {"bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings", "torch_dtype", "dtype"}) {
    if (!own.contains(key) && whole.contains(key)) own[key] = whole[key];
  }
  return own.dump(2) + "\n";
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
  if (config.RotaryDim() % 2 != 0 && config.architecture->names.positions.empty()) {
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
  model.architecture = family->architecture;
  model.model_type = std::string(family->model_type);
  FTUNE_RETURN_IF_ERROR(ReadSizes(config, *family, file, model));
  FTUNE_RETURN_IF_ERROR(CheckModelConfig(model, file));
  FTUNE_RETURN_IF_ERROR(ReadActivation(config, *family, file, model));
  FTUNE_RETURN_IF_ERROR(ReadBiases(config, *family, file, model));
  FTUNE_RETURN_IF_ERROR(ReadScales(config, *family, file, model));
  FTUNE_RETURN_IF_ERROR(ReadLayers(config, *family, file, model));
  FTUNE_RETURN_IF_ERROR(ReadTokenIds(config, file, model));
  if (family->architecture->names.positions.empty()) {
    FTUNE_RETURN_IF_ERROR(ReadRopes(config, *family, file, model));
  }
  return model;
}

absl::StatusOr<HfConfig> ReadHfConfig(const std::filesystem::path& config_json) {
  const std::string file = config_json.string();
  FTUNE_ASSIGN_OR_RETURN(const MappedFile bytes, MappedFile::Open(config_json));
  FTUNE_ASSIGN_OR_RETURN(const json config, ParseJson(std::string(bytes.text()), file));
  HfConfig read = {.text = std::string(bytes.text())};
  json own = config;
  if (config.is_object() && config.value("model_type", json()) == kGemma3Wrapper) {
    FTUNE_ASSIGN_OR_RETURN(read.text, TextConfig(read.text, config, file));
    own = json::parse(read.text);
    read.text_only = true;
  }
  FTUNE_ASSIGN_OR_RETURN(read.model, ParseHfConfig(own, file));
  const std::filesystem::path generation = config_json.parent_path() / "generation_config.json";
  if (Exists(generation)) {
    FTUNE_ASSIGN_OR_RETURN(const json fields, ReadJsonFile(generation));
    FTUNE_RETURN_IF_ERROR(AddTokenIds(fields, "eos_token_id", generation.string(), read.model.eos_ids));
  }
  return read;
}

}  // namespace ftune
