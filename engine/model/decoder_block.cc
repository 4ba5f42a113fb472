#include "engine/model/decoder_block.h"

namespace ftune {

DecoderBlock::DecoderBlock(const ModelConfig& config, int64_t layer, const TensorAxis& axis,
                           const ParameterPolicy& policy)
    : Block(axis),
      attention_(config, layer, axis, policy, store()),
      mlp_(config, layer, axis, policy, store()),
      adapted_(policy.adapter.linear != nullptr) {}

void DecoderBlock::Bind() {
  attention_.Bind();
  mlp_.Bind();
}

void DecoderBlock::Refresh(Backend& backend, Stream stream) {
  attention_.Refresh(backend, stream);
  mlp_.Refresh(backend, stream);
}

Tensor DecoderBlock::Forward(const Context& context, const Tensor& x, Saved* saved, bool output_needed) {
  const Tensor mid = attention_.Forward(context, x, saved, keep_);
  return mlp_.Forward(context, mid, saved, keep_, output_needed);
}

Tensor DecoderBlock::BackwardInput(const Context& context, const Tensor& dy, Saved& saved, bool dx_needed,
                                   bool with_weights) {
  // The residual's gradient, to which each half adds its own.
  mlp_.BackwardInput(context, dy, saved, with_weights);
  attention_.BackwardInput(context, dy, saved, dx_needed, with_weights);
  if (with_weights) saved.Clear();
  return dx_needed ? dy : Tensor();
}

void DecoderBlock::BackwardWeight(const Context& context, Saved& saved) {
  mlp_.BackwardWeight(context, saved);
  attention_.BackwardWeight(context, saved);
  saved.Clear();
}

}  // namespace ftune
