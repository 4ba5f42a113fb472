// Names of tensors in GGUF files and in Hugging Face's, both ways: one row an architecture.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/model/config.h"

namespace ftune {

struct NamePair {
  std::string_view gguf, hf;
};

struct GgufNames {
  std::string_view architecture;    // general.architecture
  std::span<const NamePair> outer;  // "token_embd", "model.embed_tokens"
  std::span<const NamePair> layer;  // behind "blk.3." and "model.layers.3."
  // llama.cpp's converter reorders the rows of q and k: each head's two rotary halves are interleaved.
  bool interleaved_heads = false;
};
// nullptr if unknown.
const GgufNames* FindGgufNames(std::string_view architecture);

// What a tensor's name says.
struct TensorRole {
  int64_t layer = -1;       // -1 outside the layers
  NamePair part;            // "attn_q", "self_attn.q_proj"
  std::string_view suffix;  // "weight", "bias"
};
// Nothing where the architecture has no such name.
std::optional<TensorRole> ParseGgufName(const GgufNames& names, std::string_view gguf);
std::optional<TensorRole> ParseHfName(const GgufNames& names, std::string_view hf);
std::string GgufName(const TensorRole& role);
std::string HfName(const TensorRole& role);

// Heads whose rows are interleaved in the file; 0 = the rows are in Hugging Face's order.
int64_t InterleavedHeads(const GgufNames& names, const TensorRole& role, const ModelConfig& config);

// rope_freqs.weight, and an older form of the same: no parameters.
bool IsGgufRopeTable(std::string_view gguf);
inline constexpr char kGgufRopeFactors[] = "rope_freqs.weight";

}  // namespace ftune
