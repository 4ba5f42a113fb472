// The model families that ftune knows, as a table: what each one's config.json leaves unsaid.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ftune {

// Which layers `sliding_window` applies to.
enum class WindowRule {
  kNone,    // the family has no window
  kAll,     // every layer, if it is set
  kLayers,  // if use_sliding_window: the layers named by layer_types, else those from max_window_layers on
};

struct Family {
  std::string_view model_type;         // Hugging Face's
  std::string_view architecture;       // class name in config.json
  std::string_view gguf_architecture;  // general.architecture
  bool qkv_bias_always = false;        // a bias that the config does not mention
  bool bias_keys = false;              // attention_bias (q, k, v, o) and mlp_bias are honoured
  WindowRule window = WindowRule::kNone;
  // transformers' defaults for absent keys (models/*/configuration_*.py).
  int64_t default_kv_heads = 0;  // 0 = as many as heads
  int64_t default_max_position = 0;
  int64_t default_window = 0;
};

std::span<const Family> Families();
// nullptr if unknown.
const Family* FindFamily(std::string_view model_type);
// "llama, mistral, qwen2"
std::string FamilyNames();

}  // namespace ftune
