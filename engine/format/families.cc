#include "engine/format/families.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/strings.h"

namespace ftune {

std::span<const Family> Families() {
  // SmolLM, TinyLlama, Vicuna and others are "llama"; llama.cpp calls Mistral "llama" too.
  static constexpr std::array<Family, 3> kFamilies = {{
      {.model_type = "llama",
       .architecture = "LlamaForCausalLM",
       .gguf_architecture = "llama",
       .bias_keys = true,
       .default_max_position = 2048},
      {.model_type = "mistral",
       .architecture = "MistralForCausalLM",
       .gguf_architecture = "llama",
       .window = WindowRule::kAll,
       .default_kv_heads = 8,
       .default_max_position = 131072,
       .default_window = 4096},
      {.model_type = "qwen2",
       .architecture = "Qwen2ForCausalLM",
       .gguf_architecture = "qwen2",
       .qkv_bias_always = true,
       .window = WindowRule::kLayers,
       .default_kv_heads = 32,
       .default_max_position = 32768,
       .default_window = 4096},
  }};
  return kFamilies;
}

const Family* FindFamily(std::string_view model_type) {
  const auto families = Families();
  const auto found = std::find_if(families.begin(), families.end(),
                                  [&](const Family& family) { return family.model_type == model_type; });
  return found == families.end() ? nullptr : &*found;
}

std::string FamilyNames() {
  std::vector<std::string_view> names;
  for (const Family& family : Families()) names.push_back(family.model_type);
  return StrJoin(names, ", ");
}

}  // namespace ftune
