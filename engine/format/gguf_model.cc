#include "engine/format/gguf_model.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "engine/format/config_reader.h"
#include "engine/format/families.h"
#include "engine/format/gguf_metadata.h"
#include "engine/format/gguf_names.h"
#include "engine/format/gguf_rope.h"
#include "engine/format/layer_reader.h"

namespace ftune {
namespace {

// Settings that change the mathematics, with the value that does not.
struct NeutralSetting {
  const char* suffix;
  double neutral;
};
constexpr NeutralSetting kNeutralSettings[] = {
    {"expert_count", 0},        {"expert_used_count", 0},
    {"attention.clamp_kqv", 0}, {"attention.max_alibi_bias", 0},
    {"logit_scale", 1},         {"residual_scale", 1},
    {"embedding_scale", 1},     {"attention.scale", 0},
};

class GgufWeights : public WeightSource {
 public:
  explicit GgufWeights(GgufFile file) : file_(std::move(file)) {}

  absl::Status AddTensors(const ModelConfig& config, const Family& family);
  const GgufFile& file() const { return file_; }
  const std::vector<SourceTensor>& tensors() const override { return tensors_; }
  void Release(const SourceTensor& tensor) const override { ForgetPages(tensor.bytes); }

 private:
  std::string origin() const override { return file_.path().string(); }
  absl::Status SetInterleaved(int64_t heads, const ModelConfig& config, SourceTensor& tensor) const;

  GgufFile file_;
  std::vector<SourceTensor> tensors_;
};

absl::Status GgufWeights::SetInterleaved(int64_t heads, const ModelConfig& config,
                                         SourceTensor& tensor) const {
  if (heads == 0) return absl::OkStatus();
  if (tensor.shape.empty() || tensor.shape[0] != heads * config.head_dim) {
    return DataError({.file = tensor.file,
                      .key = tensor.name,
                      .message = "the tensor has the wrong shape",
                      .found = StrCat("[", StrJoin(tensor.shape, ", "), "]"),
                      .expected = StrCat(heads * config.head_dim, " rows (heads * head size)")});
  }
  tensor.interleaved_heads = heads;
  return absl::OkStatus();
}

absl::Status GgufWeights::AddTensors(const ModelConfig& config, const Family& family) {
  const std::string file = file_.path().string();
  for (const GgufTensor& tensor : file_.tensors()) {
    if (IsRopeTensor(tensor.name)) continue;  // read by ReadGgufRope
    const auto role = ParseGgufName(tensor.name, *config.architecture);
    if (!role || role->layer >= config.num_layers) {
      return DataError({.file = file,
                        .key = tensor.name,
                        .message = StrCat("a tensor that a model of ", config.num_layers, " ",
                                          config.model_type, " layers does not have")});
    }
    if (!tensor.dtype || !IsFloat(*tensor.dtype)) {
      return DataError({.file = file,
                        .key = tensor.name,
                        .message = "the tensor's type is not supported",
                        .found = GgmlTypeName(tensor.ggml_type),
                        .expected = StrCat("one of ", ReadableGgmlTypes()),
                        .hint = "use another file of the model, or the Hugging Face model"});
    }
    SourceTensor source = {.name = HfTensorName(tensor.name, *config.architecture),
                           .dtype = *tensor.dtype,
                           .shape = tensor.shape,
                           .bytes = tensor.bytes,
                           .file = file};
    FTUNE_RETURN_IF_ERROR(SetInterleaved(InterleavedHeads(*role, config, family), config, source));
    // llama.cpp's converter stores the 1 that Gemma's norms add to their weights with them.
    if (config.architecture->norm_unit_offset && role->part.ends_with("norm")) source.added = -1.0f;
    tensors_.push_back(std::move(source));
  }
  std::sort(tensors_.begin(), tensors_.end(),
            [](const SourceTensor& a, const SourceTensor& b) { return a.name < b.name; });
  return absl::OkStatus();
}

absl::Status CheckSettings(const GgufFile& file, const std::string& architecture) {
  const auto fail = [&](const std::string& key, std::string found, std::string expected) {
    return DataError({.file = file.path().string(),
                      .key = key,
                      .message = "the setting changes what the model computes and is not supported",
                      .found = std::move(found),
                      .expected = std::move(expected)});
  };
  for (const NeutralSetting& setting : kNeutralSettings) {
    const std::string key = StrCat(architecture, ".", setting.suffix);
    FTUNE_ASSIGN_OR_RETURN(const double value, file.FloatOr(key, setting.neutral));
    if (value != setting.neutral) return fail(key, StrCat(value), StrCat(setting.neutral));
  }
  const std::string causal = architecture + ".attention.causal";
  FTUNE_ASSIGN_OR_RETURN(const bool is_causal, file.BoolOr(causal, true));
  if (!is_causal) return fail(causal, "false", "true");
  FTUNE_ASSIGN_OR_RETURN(const int64_t parts, file.IntOr("split.count", 1));
  if (parts > 1) {
    return DataError({.file = file.path().string(),
                      .key = "split.count",
                      .message = "a GGUF model in several files is not supported",
                      .found = StrCat(parts),
                      .hint = "join them with llama.cpp's llama-gguf-split --merge"});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadArchitecture(const GgufFile& file) {
  FTUNE_ASSIGN_OR_RETURN(std::string architecture, file.String("general.architecture"));
  std::vector<std::string_view> known;
  for (const Family& family : Families()) {
    if (family.gguf_architecture.empty()) continue;
    if (family.gguf_architecture == architecture) return architecture;
    if (std::find(known.begin(), known.end(), family.gguf_architecture) == known.end()) {
      known.push_back(family.gguf_architecture);
    }
  }
  return DataError({.file = file.path().string(),
                    .key = "general.architecture",
                    .message = "the model family is not supported",
                    .found = StrCat("'", architecture, "'"),
                    .expected = StrJoin(known, ", ")});
}

absl::Status ReadSizes(const GgufFile& file, const std::string& architecture, ModelConfig& config) {
  const auto key = [&](const char* suffix) { return StrCat(architecture, ".", suffix); };
  const GgufTensor* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return DataError({.file = file.path().string(),
                      .key = "token_embd.weight",
                      .message = "the tensor is missing or not a matrix",
                      .hint = "is this a model, or only a vocabulary?"});
  }
  config.vocab_size = embedding->shape[0];
  FTUNE_ASSIGN_OR_RETURN(config.hidden_size, file.Int(key("embedding_length")));
  FTUNE_ASSIGN_OR_RETURN(config.intermediate_size, file.Int(key("feed_forward_length")));
  FTUNE_ASSIGN_OR_RETURN(config.num_layers, file.Int(key("block_count")));
  FTUNE_ASSIGN_OR_RETURN(config.max_position, file.Int(key("context_length")));
  FTUNE_ASSIGN_OR_RETURN(config.num_heads, file.Int(key("attention.head_count")));
  FTUNE_ASSIGN_OR_RETURN(config.num_kv_heads, file.IntOr(key("attention.head_count_kv"), config.num_heads));
  if (config.num_heads <= 0) {
    return DataError({.file = file.path().string(),
                      .key = key("attention.head_count"),
                      .found = StrCat(config.num_heads),
                      .expected = "a positive integer"});
  }
  FTUNE_ASSIGN_OR_RETURN(config.head_dim,
                         file.IntOr(key("attention.key_length"), config.hidden_size / config.num_heads));
  FTUNE_ASSIGN_OR_RETURN(const int64_t value_dim, file.IntOr(key("attention.value_length"), config.head_dim));
  if (value_dim != config.head_dim) {
    return DataError({.file = file.path().string(),
                      .key = key("attention.value_length"),
                      .message = "values of another size than keys are not supported",
                      .found = StrCat(value_dim),
                      .expected = StrCat(config.head_dim)});
  }
  FTUNE_ASSIGN_OR_RETURN(const double eps, file.Float(key("attention.layer_norm_rms_epsilon")));
  config.norm_eps = static_cast<float>(eps);
  return CheckModelConfig(config, file.path().string());
}

absl::Status ReadTokenIds(const GgufFile& file, ModelConfig& config) {
  // Generation stops at each of them: end of text, of turn, of message.
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    FTUNE_ASSIGN_OR_RETURN(const int64_t id, file.IntOr(key, -1));
    if (id < 0 || id > INT32_MAX) continue;
    const int32_t value = static_cast<int32_t>(id);
    if (std::find(config.eos_ids.begin(), config.eos_ids.end(), value) == config.eos_ids.end()) {
      config.eos_ids.push_back(value);
    }
  }
  FTUNE_ASSIGN_OR_RETURN(const int64_t bos, file.IntOr("tokenizer.ggml.bos_token_id", -1));
  if (bos >= 0 && bos <= INT32_MAX) config.bos_id = static_cast<int32_t>(bos);
  return absl::OkStatus();
}

// Biases show only in the tensors.
absl::Status ReadBiases(const GgufFile& file, const Family& family, ModelConfig& config) {
  config.qkv_bias =
      family.biases == BiasRule::kQueryKeyValue || file.FindTensor("blk.0.attn_q.bias") != nullptr;
  config.output_bias = file.FindTensor("blk.0.attn_output.bias") != nullptr;
  config.mlp_bias = file.FindTensor("blk.0.ffn_gate.bias") != nullptr;
  // config.json has one key for the four of them, or none.
  const bool expressible = family.biases == BiasRule::kKeys ? config.qkv_bias == config.output_bias
                                                            : !config.output_bias && !config.mlp_bias;
  if (expressible) return absl::OkStatus();
  return DataError({.file = file.path().string(),
                    .key = "blk.0.attn_output.bias",
                    .message = StrCat("this combination of biases is not one of ", family.model_type, "'s")});
}

// Windows and positions of the layers, by the family's rules for config.json.
absl::Status ReadGgufLayers(const GgufFile& file, const std::string& architecture, const Family& family,
                            ModelConfig& config) {
  const std::string path = file.path().string();
  const std::string window_key = architecture + ".attention.sliding_window";
  FTUNE_ASSIGN_OR_RETURN(const int64_t window, file.IntOr(window_key, 0));
  if (window > 0 && (family.window == WindowRule::kFrom || family.window == WindowRule::kNone)) {
    return DataError({.file = path,
                      .key = window_key,
                      .message = StrCat("a sliding window is not supported for ", architecture),
                      .found = StrCat(window)});
  }
  nlohmann::json fields = {{"sliding_window", nullptr}};
  if (window > 0) fields["sliding_window"] = window;
  const std::string pattern_key = architecture + ".attention.sliding_window_pattern";
  if (file.Has(pattern_key)) {
    const absl::StatusOr<int64_t> every = file.Int(pattern_key);
    if (every.ok()) {
      fields["sliding_window_pattern"] = *every;
    } else {
      FTUNE_ASSIGN_OR_RETURN(const std::vector<int64_t> sliding, file.Ints(pattern_key));
      for (const int64_t flag : sliding) {
        fields["layer_types"].push_back(flag != 0 ? "sliding_attention" : "full_attention");
      }
    }
  }
  return ReadLayers(fields, family, path, config);
}

absl::Status ReadScales(const GgufFile& file, const std::string& architecture, const Family& family,
                        ModelConfig& config) {
  if (family.query_scalar) config.attention_scale = GgufAttentionScale(config, family);
  struct Cap {
    const char* suffix;
    bool honoured;
    double fallback;
    float* cap;
  };
  for (const Cap& cap : {Cap{"attn_logit_softcapping", family.attention_softcap,
                             family.default_attention_softcap, &config.attention_softcap},
                         Cap{"final_logit_softcapping", family.logit_softcap, family.default_logit_softcap,
                             &config.logit_softcap}}) {
    const std::string key = StrCat(architecture, ".", cap.suffix);
    FTUNE_ASSIGN_OR_RETURN(const double value, file.FloatOr(key, cap.fallback));
    if (value < 0 || !std::isfinite(value) || (value != 0 && !cap.honoured)) {
      return DataError({.file = file.path().string(),
                        .key = key,
                        .message = "the setting changes what the model computes and is not supported",
                        .found = StrCat(value),
                        .expected = cap.honoured ? "a positive number, or 0 for none" : "0"});
    }
    *cap.cap = static_cast<float>(value);
  }
  return absl::OkStatus();
}

// Of the families that share llama.cpp's "llama", only Mistral has a window; without one they compute the
// same.
absl::StatusOr<const Family*> FindGgufFamily(const GgufFile& file, const std::string& architecture) {
  FTUNE_ASSIGN_OR_RETURN(const int64_t window, file.IntOr(architecture + ".attention.sliding_window", 0));
  if (window < 0) {
    return DataError({.file = file.path().string(),
                      .key = architecture + ".attention.sliding_window",
                      .found = StrCat(window),
                      .expected = "0 or more"});
  }
  if (architecture == "llama" && window > 0) return FindFamily("mistral");
  for (const Family& family : Families()) {
    if (family.gguf_architecture == architecture) return &family;
  }
  return DataError({.file = file.path().string(), .key = "general.architecture", .found = architecture});
}

absl::StatusOr<ModelConfig> ReadConfig(const GgufFile& file, const std::string& architecture,
                                       const Family& family) {
  ModelConfig config;
  FTUNE_RETURN_IF_ERROR(CheckSettings(file, architecture));
  config.model_type = std::string(family.model_type);
  config.architecture = family.architecture;
  config.activation = family.default_activation;
  FTUNE_RETURN_IF_ERROR(ReadSizes(file, architecture, config));
  FTUNE_RETURN_IF_ERROR(ReadBiases(file, family, config));
  config.tied_head = file.FindTensor("output.weight") == nullptr;
  FTUNE_RETURN_IF_ERROR(ReadScales(file, architecture, family, config));
  FTUNE_RETURN_IF_ERROR(ReadGgufLayers(file, architecture, family, config));
  FTUNE_RETURN_IF_ERROR(ReadTokenIds(file, config));
  FTUNE_RETURN_IF_ERROR(ReadGgufRopes(file, architecture, family, config));
  return config;
}

}  // namespace

absl::StatusOr<GgufModel> OpenGgufModel(const std::filesystem::path& path) {
  FTUNE_ASSIGN_OR_RETURN(GgufFile file, GgufFile::Open(path));
  FTUNE_ASSIGN_OR_RETURN(const std::string architecture, ReadArchitecture(file));
  GgufModel model;
  FTUNE_ASSIGN_OR_RETURN(const Family* family, FindGgufFamily(file, architecture));
  FTUNE_ASSIGN_OR_RETURN(model.config, ReadConfig(file, architecture, *family));
  auto weights = std::make_unique<GgufWeights>(std::move(file));
  FTUNE_RETURN_IF_ERROR(weights->AddTensors(model.config, *family));
  model.weights = std::move(weights);
  return model;
}

}  // namespace ftune
