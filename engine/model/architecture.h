// What sets one kind of decoder apart from another, as data: which modules a block has, what they are called
// in Hugging Face's files, and how they compute. A family of models names one of these; sizes and settings
// that differ between its checkpoints are in ModelConfig.
#pragma once

#include <string_view>

namespace ftune {

enum class NormKind {
  kRms,    // a scale; Zhang & Sennrich, "Root mean square layer normalization" (2019)
  kLayer,  // a scale and a bias; Ba, Kiros & Hinton, "Layer normalization" (2016)
};

// Hugging Face's module names: those of a layer follow its prefix ("model.layers.0."), the others stand
// alone. An empty one is a module that the architecture does not have.
struct ModuleNames {
  std::string_view embedding = "model.embed_tokens";
  std::string_view positions = {};  // learned, added to the embedding
  std::string_view layers = "model.layers.";
  std::string_view final_norm = "model.norm";
  std::string_view head = "lm_head";

  std::string_view attention_norm = "input_layernorm";
  std::string_view query = "self_attn.q_proj";
  std::string_view key = "self_attn.k_proj";
  std::string_view value = "self_attn.v_proj";
  std::string_view fused_qkv = {};   // instead of the three: rows of q, then k, then v
  std::string_view query_norm = {};  // of each head, before the rotation
  std::string_view key_norm = {};
  std::string_view attention_output = "self_attn.o_proj";
  std::string_view attention_post_norm = {};  // of what attention adds to the residual

  std::string_view mlp_norm = "post_attention_layernorm";
  std::string_view gate = "mlp.gate_proj";
  std::string_view up = "mlp.up_proj";  // alone, without a gate: down(act(up(x)))
  std::string_view fused_gate_up = {};  // instead of the two: rows of gate, then up
  std::string_view down = "mlp.down_proj";
  std::string_view mlp_post_norm = {};
};

struct Architecture {
  ModuleNames names;
  NormKind norm = NormKind::kRms;
  bool norm_unit_offset = false;    // norms scale by 1 + weight
  bool scales_embedding = false;    // by the square root of hidden_size
  bool transposed_linears = false;  // the decoder's weights are stored [in, out]

  bool has_gate() const { return !names.gate.empty() || !names.fused_gate_up.empty(); }
};

extern const Architecture kLlama;   // Llama, Mistral, Qwen2, SmolLM3
extern const Architecture kQwen3;   // with norms of q and k
extern const Architecture kPhi3;    // fused projections
extern const Architecture kGemma;   // 1 + w norms, scaled embeddings
extern const Architecture kGemma2;  // and norms after attention and MLP
extern const Architecture kGemma3;  // and norms of q and k
extern const Architecture kGpt2;    // layer norms, learned positions, no gate

}  // namespace ftune
