// LoRA on a group of products that share their input: y += scale * B A dropout(x), each part with its own A,
// B, rank and scale. Without dropout the A matrices of all parts are one product. Where outputs are cut over
// the tensor axis, so is B; where inputs are, A: then the ranks' A x are terms of a sum, as B A x are.
#pragma once

#include <string>
#include <vector>

#include "engine/adapter/lora_targets.h"
#include "engine/model/adapter.h"

namespace ftune {

class LoraLinear final : public LinearAdapter {
 public:
  struct Part {
    Parameter* a = nullptr;    // [rank, in]
    Parameter* b = nullptr;    // [out, rank]
    size_t index = 0;          // of the site's parts
    int64_t first_column = 0;  // in y
    int64_t out_features = 0;  // of this rank of the tensor axis
    int64_t rank = 0;
    int64_t first_rank = 0;  // in `low`
    float scale = 0.0f;
    uint64_t site = 0;  // keys the dropout

    Tensor Columns(const Tensor& y) const { return y.Cols(first_column, out_features); }
    Tensor Ranks(const Tensor& low) const { return low.Cols(first_rank, rank); }
  };

  LoraLinear(const LinearSite& site, const LoraTargets& targets, double dropout, ParameterStore& store);

  const std::vector<Part>& parts() const { return parts_; }  // empty: nothing of the site is a target
  bool drops(const Context& context) const { return context.training && dropout_ > 0.0f; }
  DropoutArgs Draw(const Context& context, const Part& part) const;

  void Bind(const std::vector<Tensor>& weights) override;
  void Forward(const Context& context, const Tensor& x, const Tensor& y, AdapterSaved* saved) const override;
  bool ForwardSavedOnly(const Context& context, const Tensor& x, AdapterSaved* saved) const override;
  void BackwardInput(const Context& context, const Tensor& dy, const Tensor& dx,
                     AdapterSaved& saved) const override;
  void BackwardWeight(const Context& context, const Tensor& dy, const Tensor& x,
                      const AdapterSaved& saved) const override;

 private:
  // A dropout(x) of all parts: [tokens, ranks].
  Tensor Project(const Context& context, const Tensor& x) const;
  // Calls run(input, A, dA, first column of `low`): once for all parts together, or, where each part drops
  // other elements of x, once a part with its own input.
  template <typename Run>
  void ForEachRun(const Context& context, const Tensor& x, const Run& run) const;

  float dropout_;
  int64_t first_input_;  // of those that this rank has
  int64_t ranks_ = 0;    // of all parts
  std::vector<Part> parts_;
  Tensor all_a_;  // [ranks, in]
  Tensor all_da_;
};

}  // namespace ftune
