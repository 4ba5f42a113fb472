// The model families that ftune knows, as a table: how each one is built, and what its config.json leaves
// unsaid.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/backend/activation.h"
#include "engine/model/architecture.h"

namespace ftune {

// Which linears of the decoder have biases.
enum class BiasRule {
  kNone,
  kQueryKeyValue,  // q, k and v, always
  kAll,            // all, always
  kAttentionKey,   // q, k, v and o, if attention_bias
  kKeys,           // those, and the MLP's if mlp_bias
};

// Which layers `sliding_window` applies to.
enum class WindowRule {
  kNone,     // the family has no window
  kAll,      // every layer, if it is set
  kFrom,     // if use_sliding_window: the layers named by layer_types, else those from max_window_layers on
  kPattern,  // those named by layer_types, else all but every n-th
  kNoRope,   // if use_sliding_window: those named by layer_types, else those without rotary positions
};

// Which layers rotate positions, and how.
enum class RopeRule {
  kAll,
  kLocal,  // layers with a window by settings of their own
  kSome,   // not those that no_rope_layers or no_rope_layer_interval names
};

// The keys of config.json for sizes; GPT-2 has names of its own.
struct SizeKeys {
  const char* hidden = "hidden_size";
  const char* intermediate = "intermediate_size";
  const char* layers = "num_hidden_layers";
  const char* heads = "num_attention_heads";
  const char* kv_heads = "num_key_value_heads";
  const char* max_position = "max_position_embeddings";
  const char* norm_eps = "rms_norm_eps";
  const char* activation = "hidden_act";
};

struct Family {
  std::string_view model_type;         // Hugging Face's
  std::string_view hf_class;           // in config.json's architectures
  std::string_view gguf_architecture;  // general.architecture; empty: no GGUF of it is read
  const Architecture* architecture = &kLlama;
  SizeKeys keys;
  BiasRule biases = BiasRule::kNone;
  WindowRule window = WindowRule::kNone;
  RopeRule rope = RopeRule::kAll;
  bool gguf_interleaved = false;   // its q and k rows are reordered in GGUF
  bool partial_rotary = false;     // partial_rotary_factor is honoured
  bool logit_softcap = false;      // final_logit_softcapping is
  bool attention_softcap = false;  // attn_logit_softcapping is
  bool query_scalar = false;       // scores are divided by the root of query_pre_attn_scalar
  // transformers' defaults for absent keys (models/*/configuration_*.py).
  int64_t default_kv_heads = 0;      // 0 = as many as heads
  int64_t default_head_dim = 0;      // 0 = hidden_size / heads
  int64_t default_intermediate = 0;  // of hidden_size; 0 = the key is required
  int64_t default_max_position = 0;
  int64_t default_original_position = 0;  // original_max_position_embeddings beside the rope parameters
  int64_t default_window = 0;
  int64_t default_window_pattern = 0;  // kPattern: every so many layers one without a window
  double default_norm_eps = 1e-6;
  double default_theta = 10000.0;
  Activation default_activation = Activation::kSilu;
  bool default_tied = false;
  double default_attention_softcap = 0.0;
  double default_logit_softcap = 0.0;
};

std::span<const Family> Families();
// nullptr if unknown.
const Family* FindFamily(std::string_view model_type);
// "gemma, gemma2, …"
std::string FamilyNames();

}  // namespace ftune
