#include "engine/format/gguf_metadata.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/gguf.h"
#include "base/strings.h"
#include "engine/format/families.h"
#include "engine/format/gguf_rope.h"
#include "engine/format/gguf_tokenizer_writer.h"

namespace ftune {
namespace {

// Architectures whose every setting is written below. A new one comes with what it needs.
constexpr std::array<std::string_view, 6> kWritten = {"llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3"};

// What describes the file rather than the model, and is written anew.
constexpr std::array<std::string_view, 4> kOfTheFile = {"general.architecture", "general.file_type",
                                                        "general.quantization_version", "general.alignment"};

struct FileType {
  DType dtype;
  uint32_t number;
};
// llama.cpp's llama_ftype: what most tensors are.
constexpr FileType kFileTypes[] = {{DType::kF32, 0},  {DType::kF16, 1},   {DType::kQ4_0, 2},
                                   {DType::kQ8_0, 7}, {DType::kQ4_K, 14}, {DType::kBF16, 32}};

void AddGeneral(const ModelFiles& base, const Family& family, DType dtype, GgufMetadata& metadata) {
  metadata.Add("general.architecture", family.gguf_architecture);
  const auto* type = std::find_if(std::begin(kFileTypes), std::end(kFileTypes),
                                  [&](const FileType& row) { return row.dtype == dtype; });
  if (type != std::end(kFileTypes)) metadata.Add("general.file_type", type->number);
  if (IsQuantized(dtype)) metadata.Add("general.quantization_version", uint32_t{2});
  if (base.is_gguf) return;
  metadata.Add("general.type", "model");
  std::filesystem::path folder = std::filesystem::absolute(base.path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "model/"
  metadata.Add("general.name", folder.filename().string());
}

void AddRope(const RopeConfig& rope, const std::string& prefix, GgufMetadata& metadata) {
  metadata.Add(prefix + "freq_base", static_cast<float>(rope.theta));
  if (rope.kind == RopeKind::kLinear) {
    metadata.Add(prefix + "scaling.type", "linear");
    metadata.Add(prefix + "scaling.factor", static_cast<float>(rope.factor));
  }
  if (rope.kind != RopeKind::kLlama3) return;
  // The factors are a tensor; these are for finding the settings again.
  metadata.Add(prefix + "scaling.original_context_length", static_cast<uint32_t>(rope.original_max_position));
  if (rope.low_freq_factor == 1.0 && rope.high_freq_factor == 4.0) return;
  metadata.Add(prefix + kGgufLowFrequency, static_cast<float>(rope.low_freq_factor));
  metadata.Add(prefix + kGgufHighFrequency, static_cast<float>(rope.high_freq_factor));
}

void AddArchitecture(const ModelConfig& config, const Family& family, GgufMetadata& metadata) {
  const std::string prefix(family.gguf_architecture);
  const auto add = [&](const char* suffix, int64_t value) {
    metadata.Add(StrCat(prefix, ".", suffix), static_cast<uint32_t>(value));
  };
  add("vocab_size", config.vocab_size);
  add("context_length", config.max_position);
  add("embedding_length", config.hidden_size);
  add("block_count", config.num_layers);
  add("feed_forward_length", config.intermediate_size);
  add("attention.head_count", config.num_heads);
  add("attention.head_count_kv", config.num_kv_heads);
  add("attention.key_length", config.head_dim);
  add("attention.value_length", config.head_dim);
  add("rope.dimension_count", config.head_dim);
  metadata.Add(StrCat(prefix, ".attention.layer_norm_rms_epsilon"), config.norm_eps);
  const auto widest = std::max_element(config.layer_window.begin(), config.layer_window.end());
  if (widest != config.layer_window.end() && *widest > 0) add("attention.sliding_window", *widest);
  AddRope(config.rope, StrCat(prefix, ".rope."), metadata);
  if (family.rope == RopeRule::kLocal) {
    metadata.Add(StrCat(prefix, ".rope.freq_base_swa"), static_cast<float>(config.local_rope.theta));
  }
  if (family.attention_softcap) {
    metadata.Add(StrCat(prefix, ".attn_logit_softcapping"), config.attention_softcap);
  }
  if (family.logit_softcap && config.logit_softcap > 0) {
    metadata.Add(StrCat(prefix, ".final_logit_softcapping"), config.logit_softcap);
  }
}

// GGUF readers know a window for all layers of Mistral, for all but every n-th of Gemma's, or none.
bool FitsGguf(const ModelConfig& config, const Family& family) {
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    const bool sliding = config.layer_window[layer] > 0;
    bool expected = false;
    if (family.window == WindowRule::kAll) expected = config.layer_window.front() > 0;
    if (family.window == WindowRule::kPattern) expected = (layer + 1) % family.default_window_pattern != 0;
    if (sliding != expected) return false;
  }
  return true;
}

}  // namespace

float GgufAttentionScale(const ModelConfig& config, const Family& family) {
  constexpr int64_t kLargestGemma2 = 46, kLargestGemma3 = 62;
  const int64_t largest = family.attention_softcap ? kLargestGemma2 : kLargestGemma3;
  const int64_t scalar =
      config.num_layers == largest ? config.hidden_size / config.num_heads : config.head_dim;
  return 1.0f / std::sqrt(static_cast<float>(scalar));
}

absl::StatusOr<const Family*> CheckGgufFamily(const ModelConfig& config, const std::string& file) {
  const Family& family = *FindFamily(config.model_type);
  const bool written =
      std::find(kWritten.begin(), kWritten.end(), family.gguf_architecture) != kWritten.end();
  if (!written) {
    std::vector<std::string_view> known;
    for (const Family& other : Families()) {
      if (std::find(kWritten.begin(), kWritten.end(), other.gguf_architecture) != kWritten.end()) {
        known.push_back(other.model_type);
      }
    }
    return DataError({.file = file,
                      .key = "model_type",
                      .message = "models of this family cannot be written as GGUF",
                      .found = StrCat("'", config.model_type, "'"),
                      .expected = StrJoin(known, ", "),
                      .hint = "export with --format hf, and convert that with llama.cpp"});
  }
  const bool has_place = config.rope.kind == RopeKind::kDefault || config.rope.kind == RopeKind::kLinear ||
                         config.rope.kind == RopeKind::kLlama3;
  const bool local = family.rope == RopeRule::kLocal;
  if (!has_place || (local && config.local_rope.kind != RopeKind::kDefault)) {
    return DataError({.file = file,
                      .key = "rope_type",
                      .message = "models with this scaling of positions cannot be written as GGUF",
                      .expected = local ? "default or linear, and default for layers with a window"
                                        : "default, linear or llama3",
                      .hint = "export with --format hf, and convert that with llama.cpp"});
  }
  if (family.query_scalar && config.attention_scale != GgufAttentionScale(config, family)) {
    return DataError({.file = file,
                      .key = "query_pre_attn_scalar",
                      .message = "the model cannot be written as GGUF, which has no place for this setting",
                      .found = StrCat(1.0f / (config.attention_scale * config.attention_scale)),
                      .expected = StrCat(config.head_dim, ", which its readers take for granted"),
                      .hint = "export with --format hf"});
  }
  if (!FitsGguf(config, family)) {
    return DataError({.file = file,
                      .key = "sliding_window",
                      .message = StrCat("GGUF has no such layers of ", config.model_type, " with a window"),
                      .found = StrCat("windows ", StrJoin(config.layer_window, ", ")),
                      .hint = "read again, the model would compute something else: export with --format hf"});
  }
  return &family;
}

absl::Status AddGgufMetadata(const ModelFiles& base, const Family& family, DType dtype,
                             GgufMetadata& metadata) {
  AddGeneral(base, family, dtype, metadata);
  if (!base.is_gguf) {
    AddArchitecture(base.config, family, metadata);
    return AddTokenizer(base.path, base.config, metadata);
  }
  FTUNE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(base.path));
  const auto copy = [&](std::string_view prefix) {
    for (const GgufEntry& entry : file.entries()) {
      const bool ours = std::find(kOfTheFile.begin(), kOfTheFile.end(), entry.key) != kOfTheFile.end();
      if (entry.key.starts_with(prefix) && !ours) metadata.Add(entry);
    }
  };
  copy("general.");
  AddArchitecture(base.config, family, metadata);
  copy("tokenizer.");
  return absl::OkStatus();
}

}  // namespace ftune
