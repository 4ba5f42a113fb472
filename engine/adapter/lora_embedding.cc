#include "engine/adapter/lora_embedding.h"

#include "engine/adapter/lora_names.h"

namespace ftune {

LoraEmbedding::LoraEmbedding(const EmbeddingSite& site, const LoraModule& lora, ParameterStore& store)
    : scale_(lora.scale),
      first_id_(site.vocabulary.first()),
      a_(&store.Declare(site.module + kLoraEmbeddingA, {site.vocabulary, lora.rank}, site.terms(),
                        DType::kF32, true, true)),
      b_(&store.Declare(site.module + kLoraEmbeddingB, {site.hidden_size, lora.rank}, site.terms(),
                        DType::kF32, true, true)) {}

void LoraEmbedding::Forward(const Context& context, const Tensor& y, AdapterSaved* saved) const {
  Backend& backend = context.backend;
  const Tensor low = backend.Allocate(y.rows(), a_->value.cols(), Category::kActivations);
  backend.EmbeddingForward(context.stream, context.batch.ids, a_->value, first_id_, low);
  backend.MatMul(context.stream,
                 {.a = low, .b = b_->value, .trans_b = true, .c = y, .alpha = scale_, .beta = 1.0f});
  if (saved != nullptr) saved->low = low;
}

void LoraEmbedding::Backward(const Context& context, const Tensor& dy, AdapterSaved& saved) const {
  Backend& backend = context.backend;
  backend.MatMul(
      context.stream,
      {.a = dy, .trans_a = true, .b = saved.low, .c = b_->gradient, .alpha = scale_, .beta = 1.0f});
  const Tensor dlow = backend.Allocate(dy.rows(), a_->value.cols(), Category::kActivations);
  backend.MatMul(context.stream, {.a = dy, .b = b_->value, .c = dlow, .alpha = scale_});
  backend.EmbeddingBackward(context.stream, context.batch.ids, dlow, first_id_, a_->gradient);
}

}  // namespace ftune
