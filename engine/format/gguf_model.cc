#include "engine/format/gguf_model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "engine/format/config_reader.h"
#include "engine/format/families.h"
#include "engine/format/gguf_rope.h"

namespace ftune {
namespace {

struct NamePair {
  std::string_view gguf;
  std::string_view hf;
};

// gguf-py's tensor_mapping, the rows of these architectures.
constexpr std::array<NamePair, 3> kOuterNames = {{
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
}};
constexpr std::array<NamePair, 9> kLayerNames = {{
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
}};

// What the name of a tensor says. `layer` is -1 outside the layers.
struct TensorRole {
  int64_t layer = -1;
  std::string_view part;    // "attn_q"
  std::string_view suffix;  // "weight"
  std::string_view hf_part;
};

template <size_t N>
std::string_view Lookup(const std::array<NamePair, N>& names, std::string_view gguf) {
  for (const NamePair& pair : names) {
    if (pair.gguf == gguf) return pair.hf;
  }
  return {};
}

std::optional<TensorRole> ParseName(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  TensorRole role;
  role.suffix = name.substr(dot + 1);
  role.part = name.substr(0, dot);
  if (role.suffix != "weight" && role.suffix != "bias") return std::nullopt;
  if (!role.part.starts_with("blk.")) {
    role.hf_part = Lookup(kOuterNames, role.part);
  } else {
    const char* end = role.part.data() + role.part.size();
    const auto [rest, error] = std::from_chars(role.part.data() + 4, end, role.layer);
    if (error != std::errc() || role.layer < 0 || rest == end || *rest != '.') return std::nullopt;
    role.part = std::string_view(rest + 1, end);
    role.hf_part = Lookup(kLayerNames, role.part);
  }
  if (role.hf_part.empty()) return std::nullopt;
  return role;
}

std::string HfName(const TensorRole& role) {
  if (role.layer < 0) return StrCat(role.hf_part, ".", role.suffix);
  return StrCat("model.layers.", role.layer, ".", role.hf_part, ".", role.suffix);
}

// Settings that change the mathematics, with the value that does not.
struct NeutralSetting {
  const char* suffix;
  double neutral;
};
constexpr NeutralSetting kNeutralSettings[] = {
    {"expert_count", 0},
    {"expert_used_count", 0},
    {"attention.clamp_kqv", 0},
    {"attention.max_alibi_bias", 0},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"logit_scale", 1},
    {"residual_scale", 1},
    {"embedding_scale", 1},
    {"attention.scale", 0},
    {"rope.scaling.attn_factor", 1},
};

class GgufWeights : public WeightSource {
 public:
  explicit GgufWeights(GgufFile file) : file_(std::move(file)) {}

  absl::Status AddTensors(const ModelConfig& config, bool interleaved);
  const GgufFile& file() const { return file_; }
  const std::vector<SourceTensor>& tensors() const override { return tensors_; }
  void Release(const SourceTensor& tensor) const override { ForgetPages(tensor.bytes); }

 private:
  std::string origin() const override { return file_.path().string(); }
  absl::Status SetInterleaved(const TensorRole& role, const ModelConfig& config, SourceTensor& tensor) const;

  GgufFile file_;
  std::vector<SourceTensor> tensors_;
};

absl::Status GgufWeights::SetInterleaved(const TensorRole& role, const ModelConfig& config,
                                         SourceTensor& tensor) const {
  const bool query = role.part == "attn_q";
  if (!query && role.part != "attn_k") return absl::OkStatus();
  const int64_t heads = query ? config.num_heads : config.num_kv_heads;
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

absl::Status GgufWeights::AddTensors(const ModelConfig& config, bool interleaved) {
  const std::string file = file_.path().string();
  for (const GgufTensor& tensor : file_.tensors()) {
    // Read by ReadGgufRope, and an older form of the same.
    if (tensor.name == "rope_freqs.weight" || tensor.name.ends_with(".attn_rot_embd")) continue;
    const auto role = ParseName(tensor.name);
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
                        .expected = "F32, F16, BF16, Q4_0, Q4_1 or Q8_0",
                        .hint = "use a Q8_0 or BF16 file of the model, or the Hugging Face model"});
    }
    SourceTensor source = {.name = HfName(*role),
                           .dtype = *tensor.dtype,
                           .shape = tensor.shape,
                           .bytes = tensor.bytes,
                           .file = file};
    if (interleaved) FTUNE_RETURN_IF_ERROR(SetInterleaved(*role, config, source));
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

absl::StatusOr<ModelConfig> ReadConfig(const GgufFile& file, const std::string& architecture) {
  ModelConfig config;
  FTUNE_RETURN_IF_ERROR(CheckSettings(file, architecture));
  const std::string window_key = architecture + ".attention.sliding_window";
  FTUNE_ASSIGN_OR_RETURN(const int64_t window, file.IntOr(window_key, 0));
  if (window < 0) {
    return DataError(
        {.file = file.path().string(), .key = window_key, .found = StrCat(window), .expected = "0 or more"});
  }
  // Of the families that share llama.cpp's "llama", only Mistral has a window; without one they compute the
  // same.
  config.model_type = architecture == "llama" && window > 0 ? "mistral" : architecture;
  const Family& family = *FindFamily(config.model_type);
  config.architecture = family.architecture;
  if (window > 0 && family.window != WindowRule::kAll) {
    return DataError({.file = file.path().string(),
                      .key = window_key,
                      .message = StrCat("a sliding window is not supported for ", architecture),
                      .found = StrCat(window)});
  }
  FTUNE_RETURN_IF_ERROR(ReadSizes(file, architecture, config));
  FTUNE_RETURN_IF_ERROR(ReadBiases(file, family, config));
  config.tied_head = file.FindTensor("output.weight") == nullptr;
  config.layer_window.assign(config.num_layers, window);
  FTUNE_RETURN_IF_ERROR(ReadTokenIds(file, config));
  FTUNE_ASSIGN_OR_RETURN(config.rope, ReadGgufRope(file, architecture, config.head_dim));
  return config;
}

}  // namespace

std::string HfTensorName(std::string_view gguf_name) {
  const auto role = ParseName(gguf_name);
  return role ? HfName(*role) : "";
}

absl::StatusOr<GgufModel> OpenGgufModel(const std::filesystem::path& path) {
  FTUNE_ASSIGN_OR_RETURN(GgufFile file, GgufFile::Open(path));
  FTUNE_ASSIGN_OR_RETURN(const std::string architecture, ReadArchitecture(file));
  GgufModel model;
  FTUNE_ASSIGN_OR_RETURN(model.config, ReadConfig(file, architecture));
  auto weights = std::make_unique<GgufWeights>(std::move(file));
  FTUNE_RETURN_IF_ERROR(weights->AddTensors(model.config, architecture == "llama"));
  model.weights = std::move(weights);
  return model;
}

}  // namespace ftune
