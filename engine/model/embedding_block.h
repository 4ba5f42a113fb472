// The token embedding, and that of positions where they are learned.
#pragma once

#include "engine/model/block.h"
#include "engine/model/config.h"
#include "engine/model/linear.h"

namespace ftune {

// The weight [vocab, hidden] of the embedding, and of a head that is tied to it.
Parameter& DeclareEmbeddingWeight(const ModelConfig& config, const TensorAxis& axis,
                                  const ParameterPolicy& policy, ParameterStore& store);

class EmbeddingBlock final : public Block {
 public:
  EmbeddingBlock(const ModelConfig& config, const TensorAxis& axis, const ParameterPolicy& policy);

  const Parameter& weight() const { return *weight_; }

  bool backward_reads_values() const override { return adapter_ != nullptr; }
  bool backward_weight_reads_values() const override { return adapter_ != nullptr; }
  void Bind() override;
  void Refresh(Backend& backend, Stream stream) override;

  Tensor Forward(const Context& context, const Tensor& x, Saved* saved, bool output_needed) override;
  Tensor BackwardInput(const Context& context, const Tensor& dy, Saved& saved, bool dx_needed,
                       bool with_weights) override;
  void BackwardWeight(const Context& context, Saved& saved) override;

 private:
  TensorAxis axis_;
  Parameter* weight_;  // [vocab, hidden], of which a rank of the tensor axis has some rows
  int64_t first_id_;   // of those
  std::unique_ptr<EmbeddingAdapter> adapter_;
  Parameter* positions_ = nullptr;
  float scale_ = 1.0f;  // of the tokens' vectors
};

}  // namespace ftune
