// LoRA on the token embedding: y = E[id] + scale * B A[id], as PEFT has it: without dropout, and on a tied
// model not on the head.
#pragma once

#include "engine/adapter/lora_targets.h"
#include "engine/model/adapter.h"

namespace ftune {

class LoraEmbedding final : public EmbeddingAdapter {
 public:
  LoraEmbedding(const EmbeddingSite& site, const LoraModule& lora, ParameterStore& store);

  const Parameter& a() const { return *a_; }
  const Parameter& b() const { return *b_; }
  float scale() const { return scale_; }

  void Bind(const Tensor&) override {}
  void Forward(const Context& context, const Tensor& y, AdapterSaved* saved) const override;
  void Backward(const Context& context, const Tensor& dy, AdapterSaved& saved) const override;

 private:
  float scale_;
  int64_t first_id_;  // of those that this rank has
  Parameter* a_;      // [vocab, rank]
  Parameter* b_;      // [hidden, rank]
};

}  // namespace ftune
