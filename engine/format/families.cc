#include "engine/format/families.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/strings.h"

namespace ftune {

std::span<const Family> Families() {
  // SmolLM, TinyLlama, Vicuna and others are "llama"; llama.cpp calls Mistral "llama" too.
  static constexpr std::array<Family, 10> kFamilies = {{
      {.model_type = "llama",
       .hf_class = "LlamaForCausalLM",
       .gguf_architecture = "llama",
       .biases = BiasRule::kKeys,
       .gguf_interleaved = true,
       .default_max_position = 2048},
      {.model_type = "mistral",
       .hf_class = "MistralForCausalLM",
       .gguf_architecture = "llama",
       .window = WindowRule::kAll,
       .gguf_interleaved = true,
       .default_kv_heads = 8,
       .default_max_position = 131072,
       .default_window = 4096},
      {.model_type = "qwen2",
       .hf_class = "Qwen2ForCausalLM",
       .gguf_architecture = "qwen2",
       .biases = BiasRule::kQueryKeyValue,
       .window = WindowRule::kFrom,
       .default_kv_heads = 32,
       .default_max_position = 32768,
       .default_window = 4096},
      {.model_type = "qwen3",
       .hf_class = "Qwen3ForCausalLM",
       .gguf_architecture = "qwen3",
       .architecture = &kQwen3,
       .biases = BiasRule::kAttentionKey,
       .window = WindowRule::kFrom,
       .default_kv_heads = 32,
       .default_head_dim = 128,
       .default_max_position = 32768,
       .default_window = 4096},
      {.model_type = "smollm3",
       .hf_class = "SmolLM3ForCausalLM",
       .gguf_architecture = "smollm3",
       .biases = BiasRule::kKeys,
       .window = WindowRule::kNoRope,
       .rope = RopeRule::kSome,
       .gguf_interleaved = true,
       .default_kv_heads = 4,
       .default_max_position = 32768,
       .default_theta = 2000000.0,
       .default_tied = true},
      {.model_type = "phi3",
       .hf_class = "Phi3ForCausalLM",
       .gguf_architecture = "phi3",
       .architecture = &kPhi3,
       .window = WindowRule::kAll,
       .partial_rotary = true,
       .default_max_position = 4096,
       .default_original_position = 4096,
       .default_norm_eps = 1e-5},
      {.model_type = "gemma",
       .hf_class = "GemmaForCausalLM",
       .gguf_architecture = "gemma",
       .architecture = &kGemma,
       .biases = BiasRule::kAttentionKey,
       .default_kv_heads = 16,
       .default_head_dim = 256,
       .default_max_position = 8192,
       .default_activation = Activation::kGeluTanh,
       .default_tied = true},
      {.model_type = "gemma2",
       .hf_class = "Gemma2ForCausalLM",
       .gguf_architecture = "gemma2",
       .architecture = &kGemma2,
       .keys = {.activation = "hidden_activation"},
       .biases = BiasRule::kAttentionKey,
       .window = WindowRule::kPattern,
       .logit_softcap = true,
       .attention_softcap = true,
       .query_scalar = true,
       .default_kv_heads = 4,
       .default_head_dim = 256,
       .default_max_position = 8192,
       .default_window = 4096,
       .default_window_pattern = 2,
       .default_activation = Activation::kGeluTanh,
       .default_tied = true,
       .default_attention_softcap = 50.0,
       .default_logit_softcap = 30.0},
      {.model_type = "gemma3_text",
       .hf_class = "Gemma3ForCausalLM",
       .gguf_architecture = "gemma3",
       .architecture = &kGemma3,
       .keys = {.activation = "hidden_activation"},
       .biases = BiasRule::kAttentionKey,
       .window = WindowRule::kPattern,
       .rope = RopeRule::kLocal,
       .logit_softcap = true,
       .query_scalar = true,
       .default_kv_heads = 4,
       .default_head_dim = 256,
       .default_max_position = 131072,
       .default_window = 4096,
       .default_window_pattern = 6,
       .default_theta = 1000000.0,
       .default_activation = Activation::kGeluTanh,
       .default_tied = true},
      {.model_type = "gpt2",
       .hf_class = "GPT2LMHeadModel",
       .architecture = &kGpt2,
       .keys = {.hidden = "n_embd",
                .intermediate = "n_inner",
                .layers = "n_layer",
                .heads = "n_head",
                .max_position = "n_positions",
                .norm_eps = "layer_norm_epsilon",
                .activation = "activation_function"},
       .biases = BiasRule::kAll,
       .default_intermediate = 4,
       .default_max_position = 1024,
       .default_norm_eps = 1e-5,
       .default_activation = Activation::kGeluTanh,
       .default_tied = true},
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
