// A decoder layer: attention, then MLP, each with its norms and its residual.
#pragma once

#include "engine/model/attention_layer.h"
#include "engine/model/mlp_layer.h"

namespace ftune {

class DecoderBlock final : public Block {
 public:
  DecoderBlock(const ModelConfig& config, int64_t layer, const TensorAxis& axis,
               const ParameterPolicy& policy);

  bool hidden() const override { return true; }
  bool backward_weight_reads_values() const override { return adapted_; }
  void Bind() override;
  void Refresh(Backend& backend, Stream stream) override;
  // Undefined: positions are not rotated.
  void set_rope_table(const Tensor& table) { attention_.set_rope_table(table); }
  // Positions are rotated by the batch's own table.
  void use_text_positions() { attention_.use_text_positions(); }
  void set_keep(Keep keep) { keep_ = keep; }

  Tensor Forward(const Context& context, const Tensor& x, Saved* saved, bool output_needed) override;
  Tensor BackwardInput(const Context& context, const Tensor& dy, Saved& saved, bool dx_needed,
                       bool with_weights) override;
  void BackwardWeight(const Context& context, Saved& saved) override;

 private:
  AttentionLayer attention_;
  MlpLayer mlp_;
  Keep keep_ = Keep::kAll;
  bool adapted_;
};

}  // namespace ftune
