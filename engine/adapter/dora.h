// DoRA (Liu et al., "DoRA: weight-decomposed low-rank adaptation", 2024): y = f ⊙ (x Wᵀ + scale B A x), with
// f = m / ‖W + scale B A‖ for each output. The norm is a constant in backward (section 4.3). As PEFT has it,
// dropout in training leaves the base's product as it is and changes the rest:
// y = x Wᵀ + (f - 1) ⊙ dropout(x) Wᵀ + f ⊙ scale B A dropout(x).
#pragma once

#include <vector>

#include "engine/adapter/lora_embedding.h"
#include "engine/adapter/lora_linear.h"
#include "engine/adapter/lora_values.h"

namespace ftune {

// The magnitudes of one module, and the norms they stand against.
class DoraMagnitude {
 public:
  // `axis`: the ranks that the inputs are cut over; `terms` as in Parameter.
  DoraMagnitude(const LoraModule& lora, const Dimension& outputs, const TensorAxis& axis, Placement terms,
                ParameterStore& store);

  // After the parameters, or the base's `weight`, have changed. Needs the base's weight; nothing later does.
  void Refresh(Backend& backend, Stream stream, const LoraValues& values, const Tensor& weight);
  const Tensor& factor() const { return factor_; }  // [1, out]: m / norm
  // dm += Σ_t dy[t] * product[t] / norm, where y = factor * product.
  void Backward(const Context& context, const Tensor& dy, const Tensor& product) const;

 private:
  LoraModule lora_;
  TensorAxis axis_;
  Parameter* magnitude_;
  Tensor norms_;
  Tensor factor_;
};

class DoraLinear final : public LinearAdapter {
 public:
  DoraLinear(const LinearSite& site, const LoraTargets& targets, double dropout, ParameterStore& store);
  bool empty() const { return lora_.parts().empty(); }

  void Bind(const std::vector<Tensor>& weights) override;
  void Refresh(Backend& backend, Stream stream) override;
  bool only_adds() const override { return false; }
  void Forward(const Context& context, const Tensor& x, const Tensor& y, AdapterSaved* saved) const override;
  bool ForwardSavedOnly(const Context&, const Tensor&, AdapterSaved* saved) const override {
    return saved == nullptr;  // the product is kept
  }
  Tensor BackwardProduct(const Context& context, const Tensor& dy, AdapterSaved& saved) const override;
  void BackwardInput(const Context& context, const Tensor& dy, const Tensor& dx,
                     AdapterSaved& saved) const override;
  void BackwardWeight(const Context& context, const Tensor& dy, const Tensor& x,
                      const AdapterSaved& saved) const override;

 private:
  void ForwardDropping(const Context& context, const Tensor& x, const Tensor& y, AdapterSaved* saved) const;

  LoraLinear lora_;
  bool transposed_;
  std::vector<DoraMagnitude> magnitudes_;  // one a part of lora_
  std::vector<Tensor> weights_;            // likewise
};

class DoraEmbedding final : public EmbeddingAdapter {
 public:
  DoraEmbedding(const EmbeddingSite& site, const LoraModule& lora, ParameterStore& store);

  void Bind(const Tensor& table) override { table_ = table; }
  void Refresh(Backend& backend, Stream stream) override;
  void Forward(const Context& context, const Tensor& y, AdapterSaved* saved) const override;
  void Backward(const Context& context, const Tensor& dy, AdapterSaved& saved) const override;

 private:
  LoraEmbedding lora_;
  DoraMagnitude magnitude_;
  Tensor table_;
};

}  // namespace ftune
