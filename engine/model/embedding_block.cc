#include "engine/model/embedding_block.h"

namespace ftune {
namespace {
enum Slot { kDOut };
}  // namespace

EmbeddingBlock::EmbeddingBlock(const ModelConfig& config, const ParameterPolicy& policy)
    : weight_(&policy.Declare(store(), "model.embed_tokens.weight", {config.vocab_size, config.hidden_size},
                              true)) {}

Tensor EmbeddingBlock::Forward(const Context& context, const Tensor&, Saved*, bool output_needed) {
  if (!output_needed) return {};
  const Tensor y = context.backend.Allocate(context.batch.tokens, weight_->shape[1], Category::kActivations);
  context.backend.EmbeddingForward(context.stream, context.batch.ids, weight_->value, y);
  return y;
}

Tensor EmbeddingBlock::BackwardInput(const Context& context, const Tensor& dy, Saved& saved, bool,
                                     bool with_weights) {
  if (!weight_->trainable) return {};
  saved[kDOut] = dy;
  if (with_weights) BackwardWeight(context, saved);
  return {};
}

void EmbeddingBlock::BackwardWeight(const Context& context, Saved& saved) {
  if (saved[kDOut].defined()) {
    context.backend.EmbeddingBackward(context.stream, context.batch.ids, saved[kDOut], weight_->gradient);
  }
  saved.Clear();
}

}  // namespace ftune
