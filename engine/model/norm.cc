#include "engine/model/norm.h"

#include <cassert>

namespace ftune {

Norm::Norm(const std::string& name, const ModelConfig& config, int64_t features, int64_t groups,
           Placement terms, const ParameterPolicy& policy, ParameterStore& store)
    : kind_(config.architecture->norm),
      options_{
          .eps = config.norm_eps, .unit_offset = config.architecture->norm_unit_offset, .groups = groups},
      weight_(&policy.Declare(store, name + ".weight", {features / groups}, terms, false)) {
  if (kind_ == NormKind::kLayer) bias_ = &policy.Declare(store, name + ".bias", {features}, terms, false);
}

void Norm::Forward(const Context& context, const Tensor& x, const Tensor& y, Tensor* stats) const {
  if (kind_ == NormKind::kLayer) {
    *stats = context.backend.Allocate(x.rows(), 2, Category::kActivations);
    context.backend.LayerNormForward(context.stream, x, weight_->value, bias_->value, options_.eps, y,
                                     *stats);
    return;
  }
  *stats = context.backend.Allocate(x.rows(), options_.groups, Category::kActivations);
  context.backend.RmsNormForward(context.stream, x, weight_->value, options_, y, *stats);
}

Tensor Norm::Forward(const Context& context, const Tensor& x, Tensor* stats) const {
  const Tensor y = context.backend.Allocate(x.rows(), x.cols(), Category::kActivations);
  Forward(context, x, y, stats);
  return y;
}

void Norm::BackwardInput(const Context& context, const Tensor& dy, const Tensor& x, const Tensor& stats,
                         const Tensor& dx) const {
  if (kind_ == NormKind::kLayer) {
    context.backend.LayerNormBackwardInput(context.stream, dy, x, weight_->value, stats, dx);
    return;
  }
  context.backend.RmsNormBackwardInput(context.stream, dy, x, weight_->value, options_, stats, true, dx);
}

void Norm::BackwardInputInto(const Context& context, const Tensor& dy, const Tensor& x, const Tensor& stats,
                             const Tensor& dx) const {
  assert(kind_ == NormKind::kRms);
  context.backend.RmsNormBackwardInput(context.stream, dy, x, weight_->value, options_, stats, false, dx);
}

void Norm::BackwardWeight(const Context& context, const Tensor& dy, const Tensor& x,
                          const Tensor& stats) const {
  if (!has_trainable()) return;
  if (kind_ == NormKind::kLayer) {
    context.backend.LayerNormBackwardWeight(context.stream, dy, x, stats, weight_->gradient, bias_->gradient);
    return;
  }
  context.backend.RmsNormBackwardWeight(context.stream, dy, x, options_, stats, weight_->gradient);
}

}  // namespace ftune
