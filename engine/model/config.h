// The architecture of a decoder-only transformer, as data: what config.json or GGUF metadata say, resolved.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/backend/activation.h"

namespace ftune {

// How rotary frequencies are scaled (transformers' modeling_rope_utils).
enum class RopeKind { kDefault, kLinear, kLlama3 };

struct RopeConfig {
  RopeKind kind = RopeKind::kDefault;
  double theta = 10000.0;
  double factor = 1.0;                // linear, llama3
  double low_freq_factor = 1.0;       // llama3
  double high_freq_factor = 4.0;      // llama3
  int64_t original_max_position = 0;  // llama3

  bool operator==(const RopeConfig&) const = default;
};

struct ModelConfig {
  std::string model_type;  // Hugging Face's: "llama", "mistral", "qwen2"
  int64_t vocab_size = 0;  // rows of the embedding
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t max_position = 0;  // longest context the model was made for
  float norm_eps = 1e-5f;
  Activation activation = Activation::kSilu;
  bool qkv_bias = false;
  bool output_bias = false;  // o_proj
  bool mlp_bias = false;
  bool tied_head = false;  // lm_head shares the embedding's weight
  RopeConfig rope;
  std::vector<int64_t>
      layer_window;  // one per layer: a query sees this many latest keys, itself included; 0 = all
  std::vector<int32_t> eos_ids;  // config.json's and generation_config.json's together
  int32_t bos_id = -1;           // -1 = none

  bool operator==(const ModelConfig&) const = default;
};

}  // namespace ftune
