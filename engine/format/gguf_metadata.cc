#include "engine/format/gguf_metadata.h"

#include <algorithm>
#include <array>
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
constexpr std::array<std::string_view, 2> kWritten = {"llama", "qwen2"};

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

void AddGeneral(const ModelFiles& base, const GgufNames& names, DType dtype, GgufMetadata& metadata) {
  metadata.Add("general.architecture", names.architecture);
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

void AddArchitecture(const ModelConfig& config, const std::string& prefix, GgufMetadata& metadata) {
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
  const int64_t window = config.layer_window.empty() ? 0 : config.layer_window.front();
  if (window > 0) add("attention.sliding_window", window);
  AddRope(config.rope, StrCat(prefix, ".rope."), metadata);
}

}  // namespace

absl::StatusOr<const GgufNames*> CheckGgufFamily(const ModelConfig& config, const std::string& file) {
  const Family& family = *FindFamily(config.model_type);
  const GgufNames* names = FindGgufNames(family.gguf_architecture);
  const bool written =
      std::find(kWritten.begin(), kWritten.end(), family.gguf_architecture) != kWritten.end();
  if (names == nullptr || !written) {
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
  // Of these architectures, GGUF readers know a window for all layers of Mistral, or none.
  const auto& windows = config.layer_window;
  const bool some = std::any_of(windows.begin(), windows.end(), [](int64_t window) { return window > 0; });
  const bool alike =
      std::adjacent_find(windows.begin(), windows.end(), std::not_equal_to<>()) == windows.end();
  if (some && (!alike || family.window != WindowRule::kAll)) {
    return DataError({.file = file,
                      .key = "sliding_window",
                      .message = StrCat("GGUF has no sliding window for ", config.model_type),
                      .found = StrCat(*std::max_element(windows.begin(), windows.end())),
                      .hint = "without it the model would compute something else: export with --format hf"});
  }
  return names;
}

absl::Status AddGgufMetadata(const ModelFiles& base, const GgufNames& names, DType dtype,
                             GgufMetadata& metadata) {
  AddGeneral(base, names, dtype, metadata);
  if (!base.is_gguf) {
    AddArchitecture(base.config, std::string(names.architecture), metadata);
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
  AddArchitecture(base.config, std::string(names.architecture), metadata);
  copy("tokenizer.");
  return absl::OkStatus();
}

}  // namespace ftune
