#include "engine/model/embedding_block.h"

namespace ftune {
namespace {
enum Slot { kDOut };
}  // namespace

EmbeddingBlock::EmbeddingBlock(const ModelConfig& config, const ParameterPolicy& policy) {
  const EmbeddingSite site = {"model.embed_tokens", config.vocab_size, config.hidden_size};
  weight_ = &policy.Declare(store(), site.module + ".weight", {site.vocab_size, site.hidden_size}, true);
  if (policy.adapter.embedding) adapter_ = policy.adapter.embedding(site, store());
}

void EmbeddingBlock::Bind() {
  if (adapter_) adapter_->Bind(weight_->value);
}

void EmbeddingBlock::Refresh(Backend& backend, Stream stream) {
  if (adapter_) adapter_->Refresh(backend, stream);
}

Tensor EmbeddingBlock::Forward(const Context& context, const Tensor&, Saved* saved, bool output_needed) {
  if (!output_needed) return {};
  const Tensor y = context.backend.Allocate(context.batch.tokens, weight_->shape[1], Category::kActivations);
  context.backend.EmbeddingForward(context.stream, context.batch.ids, weight_->value, y);
  if (adapter_) adapter_->Forward(context, y, saved != nullptr ? &saved->adapters[0] : nullptr);
  return y;
}

Tensor EmbeddingBlock::BackwardInput(const Context& context, const Tensor& dy, Saved& saved, bool,
                                     bool with_weights) {
  if (!weight_->trainable && !adapter_) return {};
  saved[kDOut] = dy;
  if (with_weights) BackwardWeight(context, saved);
  return {};
}

void EmbeddingBlock::BackwardWeight(const Context& context, Saved& saved) {
  const Tensor& dy = saved[kDOut];
  if (dy.defined() && weight_->trainable) {
    context.backend.EmbeddingBackward(context.stream, context.batch.ids, dy, weight_->gradient);
  }
  if (dy.defined() && adapter_) adapter_->Backward(context, dy, saved.adapters[0]);
  saved.Clear();
}

}  // namespace ftune
