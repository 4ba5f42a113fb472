// The second half of a decoder block: norm, MLP, residual.
#pragma once

#include <optional>

#include "engine/model/attention_layer.h"

namespace ftune {

class MlpLayer {
 public:
  // The two halves share a block's Saved: attention's slots come first.
  static constexpr int kFirstSlot = AttentionLayer::kSavedSlots;
  static constexpr int kFirstAdapter = AttentionLayer::kAdapters;

  MlpLayer(const ModelConfig& config, int64_t layer, const TensorAxis& axis, const ParameterPolicy& policy,
           ParameterStore& store);

  void Bind();
  // See Block::Refresh.
  void Refresh(Backend& backend, Stream stream);

  // x [tokens, hidden] → x + mlp(norm(x)). `saved` may be null; what `keep` does not keep is made again in
  // backward. Where `output_needed` is false, the product that only makes y is left out where it can be.
  Tensor Forward(const Context& context, const Tensor& x, Saved* saved, Keep keep, bool output_needed) const;
  // dy becomes dx. Without `with_weights`, `saved` then holds what BackwardWeight needs.
  void BackwardInput(const Context& context, const Tensor& dy, Saved& saved, bool with_weights) const;
  void BackwardWeight(const Context& context, Saved& saved) const;

 private:
  void Activate(const Context& context, const Tensor& inner, const Tensor& act) const;
  // The gradient of `inner` in its place; where `act` is defined, also makes that again.
  void ActivateBackward(const Context& context, const Tensor& dact, const Tensor& inner,
                        const Tensor& act) const;
  // y += down(act), with the norm after it where there is one.
  void AddDown(const Context& context, const Tensor& act, const Tensor& y, Saved* saved) const;

  void AddInnerGradients(const Context& context, const Tensor& dinner, const Saved& saved) const;

  TensorAxis axis_;
  bool gated_;
  Activation activation_;
  int64_t intermediate_size_;  // of this rank
  Norm norm_;
  Linear inner_;  // gate and up side by side, or up alone
  Linear down_;
  std::optional<Norm> post_norm_;
};

}  // namespace ftune
