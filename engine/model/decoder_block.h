// A decoder layer: norm, attention, residual; norm, gated MLP, residual.
#pragma once

#include "engine/model/block.h"
#include "engine/model/config.h"
#include "engine/model/linear.h"
#include "engine/model/rms_norm.h"

namespace ftune {

class DecoderBlock final : public Block {
 public:
  DecoderBlock(const ModelConfig& config, int64_t layer, const ParameterPolicy& policy);

  void Bind() override;
  void Refresh(Backend& backend, Stream stream) override;
  void set_rope_table(const Tensor& table) { rope_table_ = table; }
  void set_keep(Keep keep) { keep_ = keep; }

  Tensor Forward(const Context& context, const Tensor& x, Saved* saved, bool output_needed) override;
  Tensor BackwardInput(const Context& context, const Tensor& dy, Saved& saved, bool dx_needed,
                       bool with_weights) override;
  void BackwardWeight(const Context& context, Saved& saved) override;

 private:
  // The parts of the fused product [tokens, (heads + 2 * kv_heads) * head_dim].
  Tensor Queries(const Tensor& qkv) const { return qkv.Cols(0, query_size_); }
  Tensor Keys(const Tensor& qkv) const { return qkv.Cols(query_size_, kv_size_); }
  Tensor Values(const Tensor& qkv) const { return qkv.Cols(query_size_ + kv_size_, kv_size_); }
  Tensor Rotated(const Tensor& qkv) const { return qkv.Cols(0, query_size_ + kv_size_); }
  Tensor Gate(const Tensor& gate_up) const { return gate_up.Cols(0, intermediate_size_); }
  Tensor Up(const Tensor& gate_up) const { return gate_up.Cols(intermediate_size_, intermediate_size_); }

  Tensor Attend(const Context& context, const Tensor& qkv, Tensor* lse) const;
  // Appends the new keys and values to the layer's cache and attends to all of it.
  Tensor AttendCached(const Context& context, const Tensor& qkv) const;
  // The gradients of the attention's half, once the MLP's half is done. `dmid` becomes dx.
  void BackwardAttention(const Context& context, const Tensor& dmid, Saved& saved, bool dx_needed,
                         bool with_weights);
  void BackwardMlp(const Context& context, const Tensor& dy, Saved& saved, bool with_weights);

  int64_t layer_;
  int64_t query_size_;
  int64_t kv_size_;
  int64_t intermediate_size_;
  AttentionShape attention_;
  RmsNorm input_norm_;
  Linear qkv_;
  Linear output_;
  RmsNorm post_norm_;
  Linear gate_up_;
  Linear down_;
  Tensor rope_table_;
  Keep keep_ = Keep::kAll;
};

}  // namespace ftune
