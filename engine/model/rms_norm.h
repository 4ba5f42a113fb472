// RMS normalisation with a learned scale (Zhang & Sennrich, "Root mean square layer normalization", 2019).
#pragma once

#include <string>

#include "engine/model/linear.h"

namespace ftune {

class RmsNorm {
 public:
  RmsNorm(const std::string& name, int64_t features, float eps, const ParameterPolicy& policy,
          ParameterStore& store)
      : weight_(&policy.Declare(store, name + ".weight", {features}, false)), options_{.eps = eps} {}

  bool has_trainable() const { return weight_->trainable; }

  // Gives y and rstd, both newly allocated.
  Tensor Forward(const Context& context, const Tensor& x, Tensor* rstd) const {
    const Tensor y = context.backend.Allocate(x.rows(), x.cols(), Category::kActivations);
    *rstd = context.backend.Allocate(x.rows(), 1, Category::kActivations);
    context.backend.RmsNormForward(context.stream, x, weight_->value, options_, y, *rstd);
    return y;
  }
  // dx += the gradient with respect to x.
  void BackwardInput(const Context& context, const Tensor& dy, const Tensor& x, const Tensor& rstd,
                     const Tensor& dx) const {
    context.backend.RmsNormBackwardInput(context.stream, dy, x, weight_->value, options_, rstd, true, dx);
  }
  void BackwardWeight(const Context& context, const Tensor& dy, const Tensor& x, const Tensor& rstd) const {
    if (!weight_->trainable) return;
    context.backend.RmsNormBackwardWeight(context.stream, dy, x, options_, rstd, weight_->gradient);
  }

 private:
  Parameter* weight_;
  NormOptions options_;
};

}  // namespace ftune
