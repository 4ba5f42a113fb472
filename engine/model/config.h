// The architecture of a decoder-only transformer, as data: what config.json or GGUF metadata say, resolved.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/backend/activation.h"
#include "engine/model/architecture.h"

namespace ftune {

// How rotary frequencies are scaled (transformers' modeling_rope_utils).
enum class RopeKind {
  kDefault,
  kLinear,    // positions are divided by the factor
  kDynamic,   // a larger base beyond the trained context ("dynamic NTK")
  kYarn,      // Peng et al., "YaRN: efficient context window extension of large language models" (2023)
  kLongRope,  // Ding et al., "LongRoPE" (2024): a divisor for each frequency, one set for short, one for long
              // texts
  kLlama3,
};

struct RopeConfig {
  RopeKind kind = RopeKind::kDefault;
  double theta = 10000.0;
  double factor = 1.0;                // linear, dynamic, yarn, llama3
  double low_freq_factor = 1.0;       // llama3
  double high_freq_factor = 4.0;      // llama3
  int64_t original_max_position = 0;  // the trained context: dynamic, yarn, longrope, llama3
  double beta_fast = 32.0;            // yarn
  double beta_slow = 1.0;             // yarn
  bool truncate = true;               // yarn: whole dimensions bound the ramp
  double attention_factor = 1.0;      // yarn, longrope: of cosines and sines
  std::vector<double> short_factors;  // longrope: one for each frequency
  std::vector<double> long_factors;   // longrope, for texts longer than original_max_position

  bool operator==(const RopeConfig&) const = default;
};

// The positions of one layer's attention.
enum class LayerRope : uint8_t { kNone, kGlobal, kLocal };

struct ModelConfig {
  const Architecture* architecture = &kLlama;
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
  bool output_bias = false;  // of attention
  bool mlp_bias = false;
  bool tied_head = false;          // lm_head shares the embedding's weight
  float attention_scale = 0.0f;    // of the scores; 0: 1 / sqrt(head_dim)
  float attention_softcap = 0.0f;  // 0: none
  float logit_softcap = 0.0f;
  int64_t rotary_dim = 0;  // of each head's first dimensions; 0: all
  RopeConfig rope;
  RopeConfig local_rope;              // of the layers with LayerRope::kLocal
  std::vector<LayerRope> layer_rope;  // one per layer; empty: all global
  std::vector<int64_t>
      layer_window;  // one per layer: a query sees this many latest keys, itself included; 0 = all
  std::vector<int32_t> eos_ids;  // config.json's and generation_config.json's together
  int32_t bos_id = -1;           // -1 = none

  int64_t RotaryDim() const { return rotary_dim > 0 ? rotary_dim : head_dim; }
  LayerRope RopeOf(int64_t layer) const {
    return layer_rope.empty() ? LayerRope::kGlobal : layer_rope[layer];
  }

  bool operator==(const ModelConfig&) const = default;
};

// "model.layers.3."
std::string LayerPrefix(const ModelConfig& config, int64_t layer);

}  // namespace ftune
