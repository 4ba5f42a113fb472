#include "engine/format/hf_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/gguf.h"
#include "base/io_error.h"
#include "base/json_file.h"
#include "base/strings.h"
#include "base/tensor_bytes.h"
#include "engine/format/families.h"
#include "engine/format/gguf_tokenizer.h"
#include "engine/format/shard_writer.h"

namespace ftune {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr char kConfigFile[] = "config.json";
constexpr char kGenerationFile[] = "generation_config.json";
constexpr std::array<const char*, 8> kTokenizerFiles = {
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt",     "tokenizer.model",       "chat_template.jinja"};
constexpr std::string_view kHeadWeight = "lm_head.weight";

absl::Status CopyIfThere(const std::filesystem::path& from, const std::filesystem::path& to,
                         const char* name) {
  if (!std::filesystem::exists(from / name)) return absl::OkStatus();
  return CopyFileAtomic(from / name, to / name);
}

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

std::string MakeGenerationConfig(const ModelConfig& config) {
  const OrderedJson json = {{"_from_model_config", true},
                            {"bos_token_id", IdOrNull(config.bos_id)},
                            {"eos_token_id", IdOrList(config.eos_ids)}};
  return json.dump(2) + "\n";
}

// The type that most bytes have.
DType MainDType(const std::vector<OutputTensor>& tensors) {
  std::map<DType, int64_t> bytes;
  for (const OutputTensor& tensor : tensors)
    bytes[tensor.dtype] += CheckedBytes(tensor.dtype, tensor.shape).value_or(0);
  DType main = DType::kF32;
  int64_t most = -1;
  for (const auto& [dtype, count] : bytes) {
    if (count > most) std::tie(main, most) = std::pair(dtype, count);
  }
  return main;
}

absl::Status CheckNotBase(const ModelFiles& base, const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::path own = base.is_gguf ? std::filesystem::path() : base.path;
  if (own.empty() || !std::filesystem::equivalent(own, folder, error)) return absl::OkStatus();
  return UsageError({.file = folder.string(),
                     .message = "the model cannot be written over the one it was made from",
                     .hint = "choose another folder"});
}

}  // namespace

absl::Status MakeFolder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return IoError(folder, "make the folder", error.value());
  if (!std::filesystem::is_directory(folder, error)) {
    return DataError({.file = folder.string(), .found = "a file", .expected = "a folder"});
  }
  return absl::OkStatus();
}

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

absl::StatusOr<std::string> WithDType(const std::string& config_json, DType dtype, const std::string& file) {
  FTUNE_RETURN_IF_ERROR(ParseJson(config_json, file).status());
  // Once more, keeping the order of keys.
  OrderedJson json = OrderedJson::parse(config_json);
  const bool new_dialect = json.contains("rope_parameters");
  if (json.contains("dtype") || (new_dialect && !json.contains("torch_dtype")))
    json["dtype"] = TorchName(dtype);
  if (json.contains("torch_dtype") || (!new_dialect && !json.contains("dtype"))) {
    json["torch_dtype"] = TorchName(dtype);
  }
  return json.dump(2) + "\n";
}

absl::Status WriteTokenizerFiles(const ModelFiles& base, const std::filesystem::path& folder) {
  if (!base.is_gguf) {
    for (const char* name : kTokenizerFiles) FTUNE_RETURN_IF_ERROR(CopyIfThere(base.path, folder, name));
    return absl::OkStatus();
  }
  FTUNE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(base.path));
  FTUNE_ASSIGN_OR_RETURN(const TokenizerFiles files, MakeTokenizerFiles(file));
  FTUNE_RETURN_IF_ERROR(WriteFileAtomic(folder / "tokenizer.json", files.tokenizer_json));
  return WriteFileAtomic(folder / "tokenizer_config.json", files.tokenizer_config_json);
}

absl::Status WriteHfModel(const ModelFiles& base, const std::filesystem::path& folder,
                          std::span<const OutputTensor> tensors, int64_t max_shard_bytes) {
  FTUNE_RETURN_IF_ERROR(MakeFolder(folder));
  FTUNE_RETURN_IF_ERROR(CheckNotBase(base, folder));
  std::vector<OutputTensor> kept(tensors.begin(), tensors.end());
  if (base.config.tied_head) {
    std::erase_if(kept, [](const OutputTensor& tensor) { return tensor.name == kHeadWeight; });
  }
  const DType dtype = MainDType(kept);
  FTUNE_RETURN_IF_ERROR(WriteTokenizerFiles(base, folder));
  FTUNE_RETURN_IF_ERROR(WriteShards(folder, kept, max_shard_bytes));
  if (base.is_gguf) {
    FTUNE_RETURN_IF_ERROR(WriteFileAtomic(folder / kGenerationFile, MakeGenerationConfig(base.config)));
    return WriteFileAtomic(folder / kConfigFile, MakeConfigJson(base.config, dtype));
  }
  FTUNE_RETURN_IF_ERROR(CopyIfThere(base.path, folder, kGenerationFile));
  FTUNE_ASSIGN_OR_RETURN(const std::string config,
                         WithDType(base.config_json, dtype, (base.path / kConfigFile).string()));
  return WriteFileAtomic(folder / kConfigFile, config);
}

}  // namespace ftune
