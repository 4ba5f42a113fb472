#include "engine/format/gguf_names.h"

#include <array>
#include <charconv>
#include <span>

#include "base/strings.h"

namespace ftune {
namespace {

struct NamePair {
  std::string_view gguf;
  std::string_view ModuleNames::*hf;
};

constexpr std::array<NamePair, 4> kOuterNames = {{
    {"token_embd", &ModuleNames::embedding},
    {"position_embd", &ModuleNames::positions},
    {"output_norm", &ModuleNames::final_norm},
    {"output", &ModuleNames::head},
}};
// Where two rows have one name, an architecture has only one of the modules.
constexpr std::array<NamePair, 15> kLayerNames = {{
    {"attn_norm", &ModuleNames::attention_norm},
    {"attn_q", &ModuleNames::query},
    {"attn_k", &ModuleNames::key},
    {"attn_v", &ModuleNames::value},
    {"attn_qkv", &ModuleNames::fused_qkv},
    {"attn_q_norm", &ModuleNames::query_norm},
    {"attn_k_norm", &ModuleNames::key_norm},
    {"attn_output", &ModuleNames::attention_output},
    {"post_attention_norm", &ModuleNames::attention_post_norm},
    {"ffn_norm", &ModuleNames::mlp_norm},
    {"ffn_gate", &ModuleNames::gate},
    {"ffn_up", &ModuleNames::up},
    {"ffn_up", &ModuleNames::fused_gate_up},
    {"ffn_down", &ModuleNames::down},
    {"post_ffw_norm", &ModuleNames::mlp_post_norm},
}};

// The number at the start of `text`, which is then cut off with the dot that follows.
std::optional<int64_t> TakeLayer(std::string_view& text) {
  int64_t layer = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, layer);
  if (error != std::errc() || layer < 0 || rest == end || *rest != '.') return std::nullopt;
  text = std::string_view(rest + 1, static_cast<size_t>(end - rest - 1));
  return layer;
}

// Cuts "weight" or "bias" off; empty if it is neither.
std::string_view TakeSuffix(std::string_view& name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view suffix = name.substr(dot + 1);
  name = name.substr(0, dot);
  return suffix == "weight" || suffix == "bias" ? suffix : std::string_view();
}

std::string_view FindHf(std::span<const NamePair> rows, std::string_view gguf, const ModuleNames& names) {
  for (const NamePair& row : rows) {
    if (row.gguf == gguf && !(names.*row.hf).empty()) return names.*row.hf;
  }
  return {};
}

std::string_view FindGguf(std::span<const NamePair> rows, std::string_view hf, const ModuleNames& names) {
  for (const NamePair& row : rows) {
    if (names.*row.hf == hf && !hf.empty()) return row.gguf;
  }
  return {};
}

}  // namespace

std::optional<GgufTensorRole> ParseGgufName(std::string_view name, const Architecture& architecture) {
  GgufTensorRole role;
  role.suffix = TakeSuffix(name);
  if (role.suffix.empty()) return std::nullopt;
  if (name.starts_with("blk.")) {
    name.remove_prefix(4);
    const auto layer = TakeLayer(name);
    if (!layer) return std::nullopt;
    role.layer = *layer;
    role.hf_module = FindHf(kLayerNames, name, architecture.names);
  } else {
    role.hf_module = FindHf(kOuterNames, name, architecture.names);
  }
  role.part = name;
  if (role.hf_module.empty()) return std::nullopt;
  return role;
}

std::string HfTensorName(std::string_view gguf_name, const Architecture& architecture) {
  const auto role = ParseGgufName(gguf_name, architecture);
  if (!role) return "";
  if (role->layer < 0) return StrCat(role->hf_module, ".", role->suffix);
  return StrCat(architecture.names.layers, role->layer, ".", role->hf_module, ".", role->suffix);
}

std::string GgufTensorName(std::string_view hf_name, const Architecture& architecture) {
  const ModuleNames& names = architecture.names;
  const std::string_view suffix = TakeSuffix(hf_name);
  if (suffix.empty()) return "";
  if (!hf_name.starts_with(names.layers)) {
    const std::string_view part = FindGguf(kOuterNames, hf_name, names);
    return part.empty() ? "" : StrCat(part, ".", suffix);
  }
  hf_name.remove_prefix(names.layers.size());
  const auto layer = TakeLayer(hf_name);
  const std::string_view part = FindGguf(kLayerNames, hf_name, names);
  if (!layer || part.empty()) return "";
  return StrCat("blk.", *layer, ".", part, ".", suffix);
}

int64_t InterleavedHeads(const GgufTensorRole& role, const ModelConfig& config, const Family& family) {
  if (!family.gguf_interleaved) return 0;
  if (role.part == "attn_q") return config.num_heads;
  return role.part == "attn_k" ? config.num_kv_heads : 0;
}

}  // namespace ftune
