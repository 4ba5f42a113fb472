#include "engine/format/neutral_fields.h"

#include "base/error.h"
#include "base/json_file.h"

namespace ftune {
namespace {

struct NeutralField {
  const char* key;
  const char* neutral;  // as JSON; null is neutral for all
};

constexpr NeutralField kFields[] = {
    // storage
    {"quantization_config", "null"},
    // positions
    {"partial_rotary_factor", "1"},
    {"rotary_pct", "1"},
    {"rope_interleaved", "false"},
    {"rope_local_base_freq", "null"},
    {"use_mrope", "false"},
    {"no_rope_layers", "null"},
    {"no_rope_layer_interval", "null"},
    {"alibi", "false"},
    // attention
    {"attn_logit_softcapping", "null"},
    {"query_pre_attn_scalar", "null"},
    {"attention_multiplier", "null"},
    {"attention_chunk_size", "null"},
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
    {"final_logit_softcapping", "null"},
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

// These add biases in the families whose Family::bias_keys says so; others have them always or never.
constexpr NeutralField kAttentionBias = {"attention_bias", "false"};
constexpr NeutralField kMlpBias = {"mlp_bias", "false"};

absl::Status Check(const nlohmann::json& config, const NeutralField& field, const std::string& file) {
  const auto value = config.find(field.key);
  if (value == config.end() || value->is_null()) return absl::OkStatus();
  // nlohmann compares 1 and 1.0 as equal.
  if (*value == nlohmann::json::parse(field.neutral)) return absl::OkStatus();
  return DataError({.file = file,
                    .key = field.key,
                    .message = "the field changes what the model computes and is not supported",
                    .found = Excerpt(*value),
                    .expected = field.neutral});
}

}  // namespace

absl::Status CheckNeutralFields(const nlohmann::json& config, const Family& family, const std::string& file) {
  for (const NeutralField& field : kFields) FTUNE_RETURN_IF_ERROR(Check(config, field, file));
  if (family.bias_keys) return absl::OkStatus();
  if (!family.qkv_bias_always) FTUNE_RETURN_IF_ERROR(Check(config, kAttentionBias, file));
  return Check(config, kMlpBias, file);
}

}  // namespace ftune
