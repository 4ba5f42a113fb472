#include "engine/format/neutral_fields.h"

#include "base/error.h"
#include "base/json_file.h"

namespace ftune {
namespace {

// True where the family's readers honour the field.
using Honours = bool (*)(const Family&);

struct NeutralField {
  const char* key;
  const char* neutral;  // as JSON; null is neutral for all
  Honours honoured_by = [](const Family&) { return false; };
};

constexpr NeutralField kFields[] = {
    // storage
    {"quantization_config", "null"},
    // positions
    {"partial_rotary_factor", "1", [](const Family& f) { return f.partial_rotary; }},
    {"rotary_pct", "1"},
    {"rope_interleaved", "false"},
    {"rope_local_base_freq", "null", [](const Family& f) { return f.rope == RopeRule::kLocal; }},
    {"use_mrope", "false"},
    {"no_rope_layers", "null", [](const Family& f) { return f.rope == RopeRule::kSome; }},
    {"no_rope_layer_interval", "null", [](const Family& f) { return f.rope == RopeRule::kSome; }},
    {"alibi", "false"},
    // attention
    {"attention_bias", "false",
     [](const Family& f) { return f.biases != BiasRule::kNone && f.biases != BiasRule::kAll; }},
    {"attn_logit_softcapping", "null", [](const Family& f) { return f.attention_softcap; }},
    {"query_pre_attn_scalar", "null", [](const Family& f) { return f.query_scalar; }},
    {"attention_multiplier", "null"},
    {"attention_chunk_size", "null"},
    {"scale_attn_weights", "true"},
    {"scale_attn_by_inverse_layer_idx", "false"},
    {"clip_qkv", "null"},
    {"qk_norm", "false"},
    {"use_qk_norm", "false"},
    {"qk_layernorm", "false"},
    {"is_causal", "true"},
    {"use_bidirectional_attention", "false"},
    {"add_cross_attention", "false"},
    {"is_encoder_decoder", "false"},
    // experts
    {"num_experts", "0"},
    {"num_local_experts", "0"},
    {"n_routed_experts", "0"},
    // scales, biases and shape of the block
    {"mlp_bias", "false", [](const Family& f) { return f.biases == BiasRule::kKeys; }},
    {"final_logit_softcapping", "null", [](const Family& f) { return f.logit_softcap; }},
    {"logit_scale", "1"},
    {"logits_scaling", "1"},
    {"embedding_multiplier", "1"},
    {"residual_multiplier", "1"},
    {"use_parallel_residual", "false"},
    {"parallel_attn", "false"},
    {"lm_head_bias", "false"},
    {"per_layer_config", "null"},
    // other modalities
    {"vision_config", "null"},
    {"audio_config", "null"},
};

}  // namespace

absl::Status CheckNeutralFields(const nlohmann::json& config, const Family& family, const std::string& file) {
  for (const NeutralField& field : kFields) {
    const auto value = config.find(field.key);
    if (value == config.end() || value->is_null() || field.honoured_by(family)) continue;
    // nlohmann compares 1 and 1.0 as equal.
    if (*value == nlohmann::json::parse(field.neutral)) continue;
    return DataError({.file = file,
                      .key = field.key,
                      .message = "the field changes what the model computes and is not supported",
                      .found = Excerpt(*value),
                      .expected = field.neutral});
  }
  return absl::OkStatus();
}

}  // namespace ftune
