// Matrix products of one input, side by side: y[:, part] = x W_partᵀ + b_part. Parts whose weights lie side
// by side in storage (q, k and v; gate and up) are one product.
//
// Over the tensor axis either outputs are cut (Megatron's column-parallel product: x is whole, y this rank's
// slice, and the gradient of x is summed over the ranks) or inputs (row-parallel: x is a slice, y is summed).
// Under sequence parallelism sums leave each rank its own rows; x of a product with cut outputs, and dy of
// one with cut inputs, have all rows: the caller gathers them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/adapter.h"
#include "engine/model/block.h"

namespace ftune {

// How a parameter is stored, and what is put on top of it.
struct ParameterPolicy {
  std::function<bool(const std::string& name)> trainable;
  std::function<DType(const std::string& name, bool trainable)> dtype;
  AdapterFactories adapter = {};

  Parameter& Declare(ParameterStore& store, const std::string& name, std::vector<Dimension> dims,
                     Placement terms, bool decay) const;
};

class Linear {
 public:
  Linear(const LinearSite& site, const ParameterPolicy& policy, ParameterStore& store);
  void Bind();
  // See Block::Refresh.
  void Refresh(Backend& backend, Stream stream);

  int64_t out_features() const { return out_features_; }
  bool has_trainable() const;
  bool has_adapter() const { return adapter_ != nullptr; }

  // y = x Wᵀ + b + adapter(x), or y += … with accumulate (no bias is added twice: it is part of the term).
  void Forward(const Context& context, const Tensor& x, const Tensor& y, bool accumulate,
               AdapterSaved* saved) const;
  // What Forward keeps for backward, without the product.
  void ForwardAdapterOnly(const Context& context, const Tensor& x, AdapterSaved* saved) const;
  // dx = dy W + the adapter's share; dx may be undefined (then only the adapter's half is prepared). Returns
  // dx or, where it was summed over the ranks, this rank's rows of it.
  Tensor BackwardInput(const Context& context, const Tensor& dy, const Tensor& dx, AdapterSaved& saved) const;
  // Adds to the gradients of W, b and the adapter.
  void BackwardWeight(const Context& context, const Tensor& dy, const Tensor& x,
                      const AdapterSaved& saved) const;

 private:
  struct Piece {  // one product: a part, or several joined
    Tensor weight;
    Tensor gradient;           // undefined if frozen
    int64_t first_column = 0;  // of y
    int64_t out_features = 0;
  };
  struct PartParameters {
    Parameter* weight = nullptr;
    Parameter* bias = nullptr;
    int64_t first_column = 0;
    int64_t out_features = 0;
  };

  // y = x Wᵀ of all parts, or y += ….
  void Product(const Context& context, const Tensor& x, const Tensor& y, bool accumulate) const;

  bool transposed_;
  TensorAxis axis_;
  bool outputs_cut_;
  bool inputs_cut_;
  int64_t out_features_ = 0;  // of this rank
  std::vector<PartParameters> parts_;
  std::vector<Piece> pieces_;
  std::unique_ptr<LinearAdapter> adapter_;
};

}  // namespace ftune
