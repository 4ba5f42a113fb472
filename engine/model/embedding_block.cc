#include "engine/model/embedding_block.h"

#include <cmath>
#include <utility>

#include "base/strings.h"
#include "engine/model/activations.h"

namespace ftune {
namespace {
enum Slot { kDOut };

constexpr uint64_t kNoiseSite = 0x6e656674756e65;  // "neftune": no module's hash
}  // namespace

EmbeddingBlock::EmbeddingBlock(const ModelConfig& config, const ParameterPolicy& policy) {
  const ModuleNames& names = config.architecture->names;
  const EmbeddingSite site = {std::string(names.embedding), config.vocab_size, config.hidden_size};
  weight_ =
      &policy.Declare(store(), StrCat(site.module, ".weight"), {site.vocab_size, site.hidden_size}, true);
  if (!names.positions.empty()) {
    positions_ = &policy.Declare(store(), StrCat(names.positions, ".weight"),
                                 {config.max_position, config.hidden_size}, true);
  }
  if (config.architecture->scales_embedding) scale_ = std::sqrt(static_cast<float>(config.hidden_size));
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
  const Tensor y = NewActivation(context, context.batch.tokens, weight_->shape[1]);
  Backend& backend = context.backend;
  backend.EmbeddingForward(context.stream, context.batch.ids, weight_->value, y);
  if (adapter_) adapter_->Forward(context, y, saved != nullptr ? &saved->adapters[0] : nullptr);
  if (scale_ != 1.0f) backend.Scale(context.stream, y, scale_);
  if (context.training && context.batch.noise.defined()) {
    backend.UniformNoise(context.stream,
                         {.amplitudes = context.batch.noise,
                          .seed = context.seed,
                          .step = context.step,
                          .site = kNoiseSite,
                          .first_token = context.batch.first_token},
                         y);
  }
  if (positions_ != nullptr) {
    const Tensor positions = NewActivation(context, y.rows(), y.cols());
    backend.EmbeddingForward(context.stream, context.batch.positions, positions_->value, positions);
    backend.Add(context.stream, positions, y);
  }
  return y;
}

Tensor EmbeddingBlock::BackwardInput(const Context& context, const Tensor& dy, Saved& saved, bool,
                                     bool with_weights) {
  if (!store().has_trainable()) return {};
  saved[kDOut] = dy;
  if (with_weights) BackwardWeight(context, saved);
  return {};
}

void EmbeddingBlock::BackwardWeight(const Context& context, Saved& saved) {
  Backend& backend = context.backend;
  const Tensor dy = saved[kDOut];
  AdapterSaved adapted = std::move(saved.adapters[0]);
  saved.Clear();
  if (!dy.defined()) return;
  if (positions_ != nullptr && positions_->trainable) {
    backend.EmbeddingBackward(context.stream, context.batch.positions, dy, positions_->gradient);
  }
  if (!weight_->trainable && !adapter_) return;
  if (scale_ != 1.0f) backend.Scale(context.stream, dy, scale_);
  if (weight_->trainable) {
    backend.EmbeddingBackward(context.stream, context.batch.ids, dy, weight_->gradient);
  }
  if (adapter_) adapter_->Backward(context, dy, adapted);
}

}  // namespace ftune
