#include "engine/format/gguf_names.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/strings.h"

namespace ftune {
namespace {

// gguf-py's tensor_mapping, the rows of these architectures.
constexpr std::array<NamePair, 3> kOuterNames = {{
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
}};
constexpr std::array<NamePair, 9> kLlamaLayer = {{
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

constexpr GgufNames kArchitectures[] = {
    {.architecture = "llama", .outer = kOuterNames, .layer = kLlamaLayer, .interleaved_heads = true},
    {.architecture = "qwen2", .outer = kOuterNames, .layer = kLlamaLayer},
};

using Side = std::string_view NamePair::*;

// `blocks` is what stands before the layer's number.
std::optional<TensorRole> Parse(const GgufNames& names, std::string_view name, Side side,
                                std::string_view blocks) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  TensorRole role;
  role.suffix = name.substr(dot + 1);
  std::string_view part = name.substr(0, dot);
  if (role.suffix != "weight" && role.suffix != "bias") return std::nullopt;
  std::span<const NamePair> pairs = names.outer;
  if (part.starts_with(blocks)) {
    const char* end = part.data() + part.size();
    const auto [rest, error] = std::from_chars(part.data() + blocks.size(), end, role.layer);
    if (error != std::errc() || role.layer < 0 || rest == end || *rest != '.') return std::nullopt;
    part = std::string_view(rest + 1, static_cast<size_t>(end - rest - 1));
    pairs = names.layer;
  }
  const auto found =
      std::find_if(pairs.begin(), pairs.end(), [&](const NamePair& pair) { return pair.*side == part; });
  if (found == pairs.end()) return std::nullopt;
  role.part = *found;
  return role;
}

constexpr std::string_view kGgufBlocks = "blk.";
constexpr std::string_view kHfBlocks = "model.layers.";

}  // namespace

const GgufNames* FindGgufNames(std::string_view architecture) {
  const auto* found =
      std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                   [&](const GgufNames& names) { return names.architecture == architecture; });
  return found == std::end(kArchitectures) ? nullptr : found;
}

std::optional<TensorRole> ParseGgufName(const GgufNames& names, std::string_view gguf) {
  return Parse(names, gguf, &NamePair::gguf, kGgufBlocks);
}

std::optional<TensorRole> ParseHfName(const GgufNames& names, std::string_view hf) {
  return Parse(names, hf, &NamePair::hf, kHfBlocks);
}

std::string GgufName(const TensorRole& role) {
  const std::string name = StrCat(role.part.gguf, ".", role.suffix);
  return role.layer < 0 ? name : StrCat(kGgufBlocks, role.layer, ".", name);
}

std::string HfName(const TensorRole& role) {
  const std::string name = StrCat(role.part.hf, ".", role.suffix);
  return role.layer < 0 ? name : StrCat(kHfBlocks, role.layer, ".", name);
}

int64_t InterleavedHeads(const GgufNames& names, const TensorRole& role, const ModelConfig& config) {
  if (!names.interleaved_heads) return 0;
  if (role.part.gguf == "attn_q") return config.num_heads;
  return role.part.gguf == "attn_k" ? config.num_kv_heads : 0;
}

bool IsGgufRopeTable(std::string_view gguf) {
  return gguf == kGgufRopeFactors || gguf.ends_with(".attn_rot_embd");
}

}  // namespace ftune
