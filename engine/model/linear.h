// Matrix products of one input, side by side: y[:, part] = x W_partᵀ + b_part. Parts whose weights lie side
// by side in storage (q, k and v; gate and up) are one product.
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

  Parameter& Declare(ParameterStore& store, const std::string& name, std::vector<int64_t> shape,
                     bool decay) const;
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
  // dx = dy W + the adapter's share; dx may be undefined (then only the adapter's half is prepared).
  void BackwardInput(const Context& context, const Tensor& dy, const Tensor& dx, AdapterSaved& saved) const;
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
  int64_t out_features_ = 0;
  std::vector<PartParameters> parts_;
  std::vector<Piece> pieces_;
  std::unique_ptr<LinearAdapter> adapter_;
};

}  // namespace ftune
