#include "engine/model/embedding_block.h"

#include <cmath>
#include <utility>

#include "base/strings.h"
#include "engine/model/activations.h"
#include "engine/model/tensor_split.h"

namespace ftune {
namespace {
enum Slot { kDOut };

constexpr uint64_t kNoiseSite = 0x6e656674756e65;  // "neftune": no module's hash

EmbeddingSite SiteOf(const ModelConfig& config, const TensorAxis& axis) {
  return {.module = std::string(config.architecture->names.embedding),
          .vocabulary = VocabularyDimension(config, axis.position()),
          .hidden_size = config.hidden_size,
          .axis = axis};
}
}  // namespace

Parameter& DeclareEmbeddingWeight(const ModelConfig& config, const TensorAxis& axis,
                                  const ParameterPolicy& policy, ParameterStore& store) {
  const EmbeddingSite site = SiteOf(config, axis);
  return policy.Declare(store, StrCat(site.module, ".weight"), {site.vocabulary, site.hidden_size},
                        site.terms(), true);
}

EmbeddingBlock::EmbeddingBlock(const ModelConfig& config, const TensorAxis& axis,
                               const ParameterPolicy& policy)
    : Block(axis), axis_(axis) {
  const ModuleNames& names = config.architecture->names;
  const EmbeddingSite site = SiteOf(config, axis);
  weight_ = &DeclareEmbeddingWeight(config, axis, policy, store());
  first_id_ = site.vocabulary.first();
  if (!names.positions.empty()) {
    positions_ = &policy.Declare(store(), StrCat(names.positions, ".weight"),
                                 {config.max_position, config.hidden_size}, axis.tokens(), true);
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
  Tensor y = NewActivation(context, context.batch.tokens, weight_->shape[1]);
  Backend& backend = context.backend;
  backend.EmbeddingForward(context.stream, context.batch.ids, weight_->value, first_id_, y);
  if (adapter_) adapter_->Forward(context, y, saved != nullptr ? &saved->adapters[0] : nullptr);
  if (weight_->dims[0].sharded()) y = axis_.Summed(context.stream, y);
  if (axis_.sequence_parallel()) y = Copy(context, y);  // without the other ranks' rows
  if (scale_ != 1.0f) backend.Scale(context.stream, y, scale_);
  if (context.training && context.batch.noise.defined()) {
    backend.UniformNoise(context.stream,
                         {.amplitudes = axis_.OwnCols(context.batch.noise),
                          .seed = context.seed,
                          .step = context.step,
                          .site = kNoiseSite,
                          .first_token = context.batch.first_token + axis_.FirstRow(context.batch.tokens)},
                         y);
  }
  if (positions_ != nullptr) {
    const Tensor positions = NewActivation(context, y.rows(), y.cols());
    backend.EmbeddingForward(context.stream, axis_.OwnCols(context.batch.positions), positions_->value, 0,
                             positions);
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
  Tensor dy = saved[kDOut];
  AdapterSaved adapted = std::move(saved.adapters[0]);
  saved.Clear();
  if (!dy.defined()) return;
  if (positions_ != nullptr && positions_->trainable) {
    backend.EmbeddingBackward(context.stream, axis_.OwnCols(context.batch.positions), dy, 0,
                              positions_->gradient);
  }
  if (!weight_->trainable && !adapter_) return;
  if (scale_ != 1.0f) backend.Scale(context.stream, dy, scale_);
  dy = Gathered(context, axis_, dy);
  if (weight_->trainable) {
    backend.EmbeddingBackward(context.stream, context.batch.ids, dy, first_id_, weight_->gradient);
  }
  if (adapter_) adapter_->Backward(context, dy, adapted);
}

}  // namespace ftune
