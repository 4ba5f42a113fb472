// Matrix products of one input, side by side: y[:, part] = x W_partᵀ + b_part. Parts whose weights lie side
// by side in storage (q, k and v; gate and up) are one product.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/block.h"

namespace ftune {

struct LinearPart {
  std::string
      module;  // "model.layers.0.self_attn.q_proj"; its parameters are <module>.weight and <module>.bias
  int64_t out_features = 0;
  bool bias = false;
};

struct LinearSite {
  std::vector<LinearPart> parts;
  int64_t in_features = 0;
  bool transposed = false;  // weights are stored [in, out] (GPT-2's Conv1D), not [out, in]
};

// Something added to a linear: LoRA. Its parameters are declared in the block's store when it is made.
class LinearAdapter {
 public:
  virtual ~LinearAdapter() = default;
  virtual void Bind() = 0;
  // y += adapter(x). `saved` may be null; where y is undefined, only `saved` is filled.
  virtual void Forward(const Context& context, const Tensor& x, const Tensor& y,
                       AdapterSaved* saved) const = 0;
  // dx += the adapter's share, where dx is defined; keeps in `saved` what BackwardWeight needs.
  virtual void BackwardInput(const Context& context, const Tensor& dy, const Tensor& dx,
                             AdapterSaved& saved) const = 0;
  virtual void BackwardWeight(const Context& context, const Tensor& dy, const Tensor& x,
                              const AdapterSaved& saved) const = 0;
};

// Null where no part of the site is to be adapted.
using AdapterFactory = std::function<std::unique_ptr<LinearAdapter>(const LinearSite&, ParameterStore&)>;

// How a parameter is stored.
struct ParameterPolicy {
  std::function<bool(const std::string& name)> trainable;
  std::function<DType(const std::string& name, bool trainable)> dtype;
  AdapterFactory adapter;  // may be empty

  Parameter& Declare(ParameterStore& store, const std::string& name, std::vector<int64_t> shape,
                     bool decay) const;
};

class Linear {
 public:
  Linear(const LinearSite& site, const ParameterPolicy& policy, ParameterStore& store);
  void Bind();

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

  bool transposed_;
  int64_t out_features_ = 0;
  std::vector<PartParameters> parts_;
  std::vector<Piece> pieces_;
  std::unique_ptr<LinearAdapter> adapter_;
};

}  // namespace ftune
