#include "engine/model/architecture.h"

namespace ftune {

constexpr Architecture kLlama = {};

constexpr Architecture kQwen3 = {.names = {.query_norm = "self_attn.q_norm", .key_norm = "self_attn.k_norm"}};

constexpr Architecture kPhi3 = {.names = {.query = {},
                                          .key = {},
                                          .value = {},
                                          .fused_qkv = "self_attn.qkv_proj",
                                          .gate = {},
                                          .up = {},
                                          .fused_gate_up = "mlp.gate_up_proj"}};

constexpr Architecture kGemma = {.norm_unit_offset = true, .scales_embedding = true};

constexpr Architecture kGemma2 = {.names = {.attention_post_norm = "post_attention_layernorm",
                                            .mlp_norm = "pre_feedforward_layernorm",
                                            .mlp_post_norm = "post_feedforward_layernorm"},
                                  .norm_unit_offset = true,
                                  .scales_embedding = true};

constexpr Architecture kGemma3 = {.names = {.query_norm = "self_attn.q_norm",
                                            .key_norm = "self_attn.k_norm",
                                            .attention_post_norm = "post_attention_layernorm",
                                            .mlp_norm = "pre_feedforward_layernorm",
                                            .mlp_post_norm = "post_feedforward_layernorm"},
                                  .norm_unit_offset = true,
                                  .scales_embedding = true};

constexpr Architecture kGpt2 = {.names = {.embedding = "transformer.wte",
                                          .positions = "transformer.wpe",
                                          .layers = "transformer.h.",
                                          .final_norm = "transformer.ln_f",
                                          .attention_norm = "ln_1",
                                          .query = {},
                                          .key = {},
                                          .value = {},
                                          .fused_qkv = "attn.c_attn",
                                          .attention_output = "attn.c_proj",
                                          .mlp_norm = "ln_2",
                                          .gate = {},
                                          .up = "mlp.c_fc",
                                          .down = "mlp.c_proj"},
                                .norm = NormKind::kLayer,
                                .transposed_linears = true};

}  // namespace ftune
