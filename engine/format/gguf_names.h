// Names of tensors in GGUF files and in Hugging Face's, in both directions (gguf-py's tensor_mapping).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/format/families.h"
#include "engine/model/config.h"

namespace ftune {

// What the name of a GGUF tensor says.
struct GgufTensorRole {
  int64_t layer = -1;          // -1 outside the layers
  std::string_view part;       // "attn_q"
  std::string_view suffix;     // "weight" or "bias"
  std::string_view hf_module;  // "self_attn.q_proj"
};
// Nothing for a tensor that the architecture does not have. Views are into `name` and static text.
std::optional<GgufTensorRole> ParseGgufName(std::string_view name, const Architecture& architecture);

// "model.layers.3.mlp.up_proj.weight" for "blk.3.ffn_up.weight"; empty if there is none.
std::string HfTensorName(std::string_view gguf_name, const Architecture& architecture);
// The other way round.
std::string GgufTensorName(std::string_view hf_name, const Architecture& architecture);

// Heads whose rows llama.cpp's converter interleaves in this tensor; 0: the rows are in Hugging Face's order.
int64_t InterleavedHeads(const GgufTensorRole& role, const ModelConfig& config, const Family& family);

}  // namespace ftune
