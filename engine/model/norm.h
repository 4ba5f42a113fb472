// A normalisation of rows, or of the heads within them, with its learned scale (and bias).
#pragma once

#include <string>

#include "engine/model/config.h"
#include "engine/model/linear.h"

namespace ftune {

class Norm {
 public:
  // `features` is the width of x, of which each of `groups` equal parts is normalised by itself. `terms`: how
  // what is normalised lies on the tensor axis.
  Norm(const std::string& name, const ModelConfig& config, int64_t features, int64_t groups, Placement terms,
       const ParameterPolicy& policy, ParameterStore& store);

  bool has_trainable() const { return weight_->trainable || (bias_ != nullptr && bias_->trainable); }

  // y = norm(x); `stats` is newly allocated and what backward needs. y may be x.
  void Forward(const Context& context, const Tensor& x, const Tensor& y, Tensor* stats) const;
  // y newly allocated.
  Tensor Forward(const Context& context, const Tensor& x, Tensor* stats) const;
  // dx += the gradient with respect to x.
  void BackwardInput(const Context& context, const Tensor& dy, const Tensor& x, const Tensor& stats,
                     const Tensor& dx) const;
  // dx = that gradient; dx may be dy. RMS norms only.
  void BackwardInputInto(const Context& context, const Tensor& dy, const Tensor& x, const Tensor& stats,
                         const Tensor& dx) const;
  void BackwardWeight(const Context& context, const Tensor& dy, const Tensor& x, const Tensor& stats) const;

 private:
  NormKind kind_;
  NormOptions options_;
  Parameter* weight_;
  Parameter* bias_ = nullptr;
};

}  // namespace ftune
