// GGUF models to ModelConfig and Hugging Face names.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>

#include "engine/format/gguf_model.h"
#include "engine/format/gguf_names.h"
#include "engine/format/gguf_rope.h"
#include "tests/unit/base/gguf_builder.h"
#include "tests/unit/engine/tiny.h"

namespace ftune {
namespace {

std::string F32(int64_t count, float value = 1.0f) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) bytes += Bytes(value + static_cast<float>(i));
  return bytes;
}

// Metadata of a model of one layer: hidden 8, 2 heads of 4, 1 key-value head, vocabulary 5.
GgufBuilder Metadata(const std::string& architecture = "llama") {
  GgufBuilder builder;
  builder.Text("general.architecture", architecture);
  const auto key = [&](const char* suffix) { return architecture + "." + suffix; };
  builder.Int(key("embedding_length"), 8).Int(key("feed_forward_length"), 6).Int(key("block_count"), 1);
  builder.Int(key("context_length"), 128).Int(key("attention.head_count"), 2);
  builder.Int(key("attention.head_count_kv"), 1).Float(key("attention.layer_norm_rms_epsilon"), 1e-5f);
  builder.Float(key("rope.freq_base"), 5000.0f);
  return builder;
}

GgufBuilder& Tensors(GgufBuilder& builder) {
  builder.Tensor("token_embd.weight", {8, 5}, 0, F32(40)).Tensor("output_norm.weight", {8}, 0, F32(8));
  builder.Tensor("blk.0.attn_q.weight", {8, 8}, 0, F32(64)).Tensor("blk.0.attn_k.weight", {8, 4}, 0, F32(32));
  return builder.Tensor("blk.0.ffn_up.weight", {8, 6}, 0, F32(48));
}

GgufBuilder Sound(const std::string& architecture = "llama") {
  GgufBuilder builder = Metadata(architecture);
  return Tensors(builder);
}

absl::StatusOr<GgufModel> Open(const GgufBuilder& builder) {
  TempFolder folder;
  WriteBytes(folder / "m.gguf", builder.Build());
  return OpenGgufModel(folder / "m.gguf");  // stays mapped when the folder is gone
}

ModelConfig ConfigOf(const GgufBuilder& builder) {
  auto model = Open(builder);
  INFO(model.status().message());
  REQUIRE(model.ok());
  return model->config;
}

TEST_CASE("gguf model: sizes") {
  const ModelConfig config = ConfigOf(Sound()
                                          .Int("tokenizer.ggml.eos_token_id", 2)
                                          .Int("tokenizer.ggml.eot_token_id", 4)
                                          .Int("tokenizer.ggml.eom_token_id", 2)
                                          .Int("tokenizer.ggml.bos_token_id", 1));
  CHECK(config.model_type == "llama");
  CHECK(config.vocab_size == 5);
  CHECK(config.hidden_size == 8);
  CHECK(config.intermediate_size == 6);
  CHECK(config.num_layers == 1);
  CHECK(config.num_heads == 2);
  CHECK(config.num_kv_heads == 1);
  CHECK(config.head_dim == 4);
  CHECK(config.max_position == 128);
  CHECK(config.norm_eps == 1e-5f);
  CHECK(config.rope == RopeConfig{.theta = 5000.0});
  CHECK(config.tied_head);
  CHECK_FALSE((config.qkv_bias || config.output_bias || config.mlp_bias));
  CHECK(config.eos_ids == std::vector<int32_t>{2, 4});
  CHECK(config.bos_id == 1);
  CHECK(config.layer_window == std::vector<int64_t>{0});
  CHECK_FALSE(ConfigOf(Sound().Tensor("output.weight", {8, 5}, 0, F32(40))).tied_head);
}

TEST_CASE("gguf model: names, and rows of q and k put back in order") {
  const auto model = Open(Sound());
  REQUIRE(model.ok());
  const SourceTensor* q = model->weights->Find("model.layers.0.self_attn.q_proj.weight");
  REQUIRE(q != nullptr);
  CHECK(q->shape == std::vector<int64_t>{8, 8});
  CHECK(q->interleaved_heads == 2);
  CHECK(model->weights->Find("model.layers.0.self_attn.k_proj.weight")->interleaved_heads == 1);
  CHECK(model->weights->Find("model.layers.0.mlp.up_proj.weight")->interleaved_heads == 0);
  CHECK(model->weights->Find("model.embed_tokens.weight")->shape == std::vector<int64_t>{5, 8});
  std::vector<float> rows(64);
  CopySourceTensor(*q, reinterpret_cast<std::byte*>(rows.data()));
  for (int row = 0; row < 8; ++row) {
    const int stored[] = {0, 2, 1, 3, 4, 6, 5, 7};  // of the row that Hugging Face has here
    CHECK(rows[row * 8] == 1.0f + static_cast<float>(stored[row]) * 8);
  }
}

TEST_CASE("gguf model: names of tensors") {
  CHECK(HfTensorName("token_embd.weight", kLlama) == "model.embed_tokens.weight");
  CHECK(HfTensorName("output_norm.weight", kLlama) == "model.norm.weight");
  CHECK(HfTensorName("output.weight", kLlama) == "lm_head.weight");
  CHECK(HfTensorName("blk.12.attn_norm.weight", kLlama) == "model.layers.12.input_layernorm.weight");
  CHECK(HfTensorName("blk.0.ffn_norm.weight", kLlama) == "model.layers.0.post_attention_layernorm.weight");
  CHECK(HfTensorName("blk.3.attn_v.bias", kLlama) == "model.layers.3.self_attn.v_proj.bias");
  CHECK(HfTensorName("blk.3.attn_output.weight", kLlama) == "model.layers.3.self_attn.o_proj.weight");
  CHECK(HfTensorName("blk.3.ffn_gate.weight", kLlama) == "model.layers.3.mlp.gate_proj.weight");
  CHECK(HfTensorName("blk.3.ffn_down.weight", kLlama) == "model.layers.3.mlp.down_proj.weight");
  for (const char* name :
       {"blk.x.attn_q.weight", "blk.-1.attn_q.weight", "blk.3attn_q.weight", "blk.3.", "blk.3",
        "blk.99999999999999999999.attn_q.weight", "attn_q.weight", "output", "", "output.scale"}) {
    INFO(name);
    CHECK(HfTensorName(name, kLlama) == "");
  }
  CHECK(GgufTensorName("model.layers.3.self_attn.q_norm.weight", kLlama) == "");
}

TEST_CASE("gguf model: every architecture's names, both ways") {
  for (const ModelConfig& config : testing::ArchitectureConfigs()) {
    for (const ParameterShape& p : ModelParameters(config)) {
      const std::string name = GgufTensorName(p.name, *config.architecture);
      INFO(p.name, " ", name);
      CHECK_FALSE(name.empty());
      CHECK(HfTensorName(name, *config.architecture) == p.name);
    }
  }
  CHECK(GgufTensorName("model.layers.3.post_attention_layernorm.weight", kLlama) == "blk.3.ffn_norm.weight");
  CHECK(GgufTensorName("model.layers.3.post_attention_layernorm.weight", kGemma2) ==
        "blk.3.post_attention_norm.weight");
  CHECK(GgufTensorName("transformer.h.0.attn.c_attn.bias", kGpt2) == "blk.0.attn_qkv.bias");
  CHECK(GgufTensorName("model.layers.3.mlp.gate_up_proj.weight", kPhi3) == "blk.3.ffn_up.weight");
  CHECK(GgufTensorName("model.layers.3.mlp.router.weight", kLlama) == "");
}

TEST_CASE("gguf model: Gemma 3 and what its file does not say") {
  GgufBuilder builder = Sound("gemma3");
  builder.Int("gemma3.attention.sliding_window", 7);
  builder.Tensor("blk.0.post_ffw_norm.weight", {8}, 0, F32(8));
  const auto model = Open(builder);
  INFO(model.status().message());
  REQUIRE(model.ok());
  const ModelConfig& config = model->config;
  CHECK(config.model_type == "gemma3_text");
  CHECK(config.layer_window == std::vector<int64_t>{7});
  CHECK(config.RopeOf(0) == LayerRope::kLocal);
  CHECK((config.rope.theta == 5000.0 && config.local_rope.theta == 10000.0));
  CHECK(config.attention_scale == 0.5f);
  CHECK((config.activation == Activation::kGeluTanh && config.tied_head));
  const SourceTensor* norm = model->weights->Find("model.layers.0.post_feedforward_layernorm.weight");
  REQUIRE(norm != nullptr);
  CHECK(norm->added == -1.0f);
  CHECK(model->weights->Find("model.layers.0.mlp.up_proj.weight")->added == 0.0f);
  CHECK(NotSaid(Open(Sound("gemma3")).status(), "sliding_window", "null") == "");
  CHECK(NotSaid(Open(builder.Float("gemma3.attn_logit_softcapping", 50.0f)).status(),
                "attn_logit_softcapping", "not supported") == "");
}

TEST_CASE("gguf model: Phi-3's LongRoPE factors are tensors") {
  GgufBuilder builder = Metadata("phi3");
  builder.Int("phi3.rope.dimension_count", 4).Int("phi3.rope.scaling.original_context_length", 32);
  builder.Tensor("token_embd.weight", {8, 5}, 0, F32(40));
  builder.Tensor("rope_factors_short.weight", {2}, 0, F32(2));
  builder.Tensor("rope_factors_long.weight", {2}, 0, F32(2, 5.0f));
  const RopeConfig rope = ConfigOf(builder).rope;
  CHECK(rope.kind == RopeKind::kLongRope);
  CHECK((rope.short_factors == std::vector<double>{1, 2} && rope.long_factors == std::vector<double>{5, 6}));
  CHECK((rope.original_max_position == 32 && rope.factor == 4.0));
  CHECK(rope.attention_factor == doctest::Approx(std::sqrt(1 + std::log(4.0) / std::log(32.0))));
}

TEST_CASE("gguf model: qwen2 has biases and plain rows") {
  GgufBuilder builder = Sound("qwen2");
  builder.Tensor("blk.0.attn_q.bias", {8}, 0, F32(8));
  const auto model = Open(builder);
  REQUIRE(model.ok());
  CHECK(model->config.qkv_bias);
  CHECK_FALSE(model->config.output_bias);
  CHECK(model->weights->Find("model.layers.0.self_attn.q_proj.weight")->interleaved_heads == 0);
  CHECK(model->weights->Find("model.layers.0.self_attn.q_proj.bias") != nullptr);
}

TEST_CASE("gguf model: llama's biases, all or none") {
  const std::string bias = F32(8);
  GgufBuilder both = Sound();
  both.Tensor("blk.0.attn_q.bias", {8}, 0, bias).Tensor("blk.0.attn_output.bias", {8}, 0, bias);
  const auto model = Open(both);
  REQUIRE(model.ok());
  CHECK((model->config.qkv_bias && model->config.output_bias));
  const SourceTensor* q = model->weights->Find("model.layers.0.self_attn.q_proj.bias");
  CHECK(q->interleaved_heads == 2);
  std::vector<float> values(8);
  CopySourceTensor(*q, reinterpret_cast<std::byte*>(values.data()));
  CHECK(values == std::vector<float>{1, 3, 2, 4, 5, 7, 6, 8});
  CHECK(NotSaid(Open(Sound().Tensor("blk.0.attn_q.bias", {8}, 0, bias)).status(), "biases") == "");
}

TEST_CASE("gguf model: a sliding window makes it Mistral") {
  const ModelConfig config = ConfigOf(Sound().Int("llama.attention.sliding_window", 7));
  CHECK(config.model_type == "mistral");
  CHECK(config.layer_window == std::vector<int64_t>{7});
  CHECK(NotSaid(Open(Sound("qwen2").Int("qwen2.attention.sliding_window", 7)).status(), "sliding_window") ==
        "");
}

// Llama 3's factors for heads of 4 values would be all alike; heads of 64.
GgufBuilder WideHeads(const std::vector<float>& factors) {
  GgufBuilder builder;
  builder.Text("general.architecture", "llama").Int("llama.embedding_length", 64).Int("llama.block_count", 1);
  builder.Int("llama.feed_forward_length", 8).Int("llama.context_length", 131072);
  builder.Int("llama.attention.head_count", 1).Float("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  builder.Float("llama.rope.freq_base", 500000.0f).Tensor("token_embd.weight", {64, 1}, 0, F32(64));
  std::string bytes;
  for (const float factor : factors) bytes += Bytes(factor);
  return builder.Tensor("rope_freqs.weight", {factors.size()}, 0, bytes);
}

TEST_CASE("gguf model: Llama 3's rotary scaling is found in its factors") {
  for (const int64_t positions : {8192, 2048}) {
    const RopeConfig rope = {.kind = RopeKind::kLlama3,
                             .theta = 500000.0,
                             .factor = 32.0,
                             .low_freq_factor = 1.0,
                             .high_freq_factor = 4.0,
                             .original_max_position = positions};
    CHECK(ConfigOf(WideHeads(Llama3Divisors(rope, 64))).rope == rope);
  }
  // What llama.cpp's converter computes, in PyTorch, for Llama-3.2-1B: one, the blend, the factor.
  const std::vector<float> divisors = Llama3Divisors(
      {.kind = RopeKind::kLlama3, .theta = 500000.0, .factor = 32.0, .original_max_position = 8192}, 64);
  REQUIRE(divisors.size() == 32);
  CHECK(divisors[0] == 1.0f);
  CHECK(divisors[14] == 1.0f);
  CHECK(divisors[15] == doctest::Approx(1.6513292789459229).epsilon(1e-6));
  CHECK(divisors[16] == doctest::Approx(3.2922627925872803).epsilon(1e-6));
  CHECK(divisors[17] == doctest::Approx(9.666730880737305).epsilon(1e-6));
  CHECK(divisors[18] == 32.0f);
  CHECK(divisors[31] == 32.0f);
  CHECK(ConfigOf(WideHeads(std::vector<float>(32, 1.0f))).rope.kind == RopeKind::kDefault);

  std::vector<float> wrong = divisors;
  wrong[16] *= 1.01f;
  CHECK(NotSaid(Open(WideHeads(wrong)).status(), "rope_freqs.weight", "not those of Llama 3") == "");
  CHECK(NotSaid(Open(WideHeads(std::vector<float>(31, 1.0f))).status(), "rope_freqs.weight", "[31]",
                "[32]") == "");
  CHECK(NotSaid(Open(WideHeads(std::vector<float>(32, 0.0f))).status(), "rope_freqs.weight") == "");
  CHECK(NotSaid(Open(WideHeads(std::vector<float>(32, NAN))).status(), "rope_freqs.weight") == "");
}

TEST_CASE("gguf model: other rotary settings") {
  CHECK(ConfigOf(Sound().Float("llama.rope.scaling.factor", 4.0f)).rope ==
        RopeConfig{.kind = RopeKind::kLinear, .theta = 5000.0, .factor = 4.0});
  CHECK(ConfigOf(Sound().Float("llama.rope.scale_linear", 2.0f)).rope.factor == 2.0);
  CHECK(ConfigOf(Sound().Text("llama.rope.scaling.type", "none")).rope.kind == RopeKind::kDefault);
  CHECK(NotSaid(Open(Sound().Text("llama.rope.scaling.type", "yarn")).status(), "llama.rope.scaling.type",
                "'yarn'") == "");
  CHECK(NotSaid(Open(Sound().Int("llama.rope.dimension_count", 2)).status(), "dimension_count",
                "part of each head") == "");
  CHECK(NotSaid(Open(Sound().Float("llama.rope.scaling.factor", -1.0f)).status(), "scaling.factor") == "");
}

TEST_CASE("gguf model: what ftune does not have is refused by name") {
  CHECK(NotSaid(Open(Sound("falcon")).status(), "general.architecture", "'falcon'", "llama, qwen2") == "");
  CHECK(NotSaid(Open(GgufBuilder()).status(), "general.architecture", "no such key") == "");
  CHECK(NotSaid(Open(Sound().Int("llama.expert_count", 8)).status(), "llama.expert_count", "found 8") == "");
  CHECK(NotSaid(Open(Sound().Float("llama.logit_scale", 2.0f)).status(), "llama.logit_scale", "found 2") ==
        "");
  CHECK(NotSaid(Open(Sound().Bool("llama.attention.causal", false)).status(), "causal") == "");
  CHECK(NotSaid(Open(Sound().Int("split.count", 3)).status(), "split.count", "llama-gguf-split") == "");
  CHECK(NotSaid(Open(Sound().TensorAt("blk.0.ffn_down.weight", {256}, 39, 0, "")).status(),
                "blk.0.ffn_down.weight", "MXFP4", "Q8_0", "Q6_K") == "");
  CHECK(NotSaid(Open(Sound().TensorAt("blk.0.ffn_down.weight", {256}, 77, 0, "")).status(),
                "blk.0.ffn_down.weight", "type 77") == "");
  CHECK(NotSaid(Open(Sound().TensorAt("blk.0.ffn_down.weight", {288, 8}, 12, 0, "")).status(),
                "blk.0.ffn_down.weight", "288", "multiple of 256, the block of q4_k") == "");
  CHECK(NotSaid(Open(Sound().Tensor("blk.0.ffn_down.weight", {8, 8}, 26, F32(64))).status(),
                "blk.0.ffn_down.weight", "I32") == "");
  CHECK(NotSaid(Open(Sound().Tensor("blk.0.attn_q_norm.weight", {4}, 0, F32(4))).status(), "attn_q_norm",
                "does not have") == "");
  CHECK(NotSaid(Open(Sound().Tensor("blk.1.attn_q.weight", {8, 8}, 0, F32(64))).status(),
                "blk.1.attn_q.weight", "1 llama layers") == "");
  CHECK(NotSaid(Open(Sound().Int("llama.attention.value_length", 8)).status(), "value_length", "found 8") ==
        "");
}

TEST_CASE("gguf model: sizes that are missing or wrong") {
  GgufBuilder no_embedding = Metadata();
  CHECK(NotSaid(Open(no_embedding).status(), "token_embd.weight", "missing") == "");
  GgufBuilder partial;
  partial.Text("general.architecture", "llama").Tensor("token_embd.weight", {8, 5}, 0, F32(40));
  CHECK(NotSaid(Open(partial).status(), "llama.embedding_length", "no such key") == "");
  GgufBuilder no_heads = partial;
  no_heads.Int("llama.embedding_length", 8).Int("llama.feed_forward_length", 6).Int("llama.block_count", 1);
  no_heads.Int("llama.context_length", 128);
  GgufBuilder zero = no_heads;
  CHECK(NotSaid(Open(zero.Int("llama.attention.head_count", 0)).status(), "head_count", "found 0") == "");
  GgufBuilder odd = no_heads;
  odd.Int("llama.attention.head_count", 3).Float("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  CHECK(ConfigOf(odd.Int("llama.attention.key_length", 4)).head_dim == 4);
  GgufBuilder list = no_heads;
  CHECK(NotSaid(Open(list.Ints("llama.attention.head_count", {2, 2})).status(), "head_count", "an integer") ==
        "");
  GgufBuilder wrong_rows = Metadata();
  wrong_rows.Tensor("token_embd.weight", {8, 5}, 0, F32(40))
      .Tensor("blk.0.attn_q.weight", {8, 6}, 0, F32(48));
  CHECK(NotSaid(Open(wrong_rows).status(), "q_proj.weight", "[6, 8]", "8 rows") == "");
}

}  // namespace
}  // namespace ftune
