#include "engine/model/linear.h"

#include <utility>

namespace ftune {

Parameter& ParameterPolicy::Declare(ParameterStore& store, const std::string& name,
                                    std::vector<Dimension> dims, Placement terms, bool decay) const {
  const bool trains = trainable(name);
  return store.Declare(name, std::move(dims), terms, dtype(name, trains), trains, decay);
}

Linear::Linear(const LinearSite& site, const ParameterPolicy& policy, ParameterStore& store)
    : transposed_(site.transposed),
      axis_(site.axis),
      outputs_cut_(site.outputs_cut()),
      inputs_cut_(site.inputs_cut()) {
  for (const LinearPart& part : site.parts) {
    PartParameters p;
    std::vector<Dimension> dims = {part.outputs, site.inputs};
    if (transposed_) std::swap(dims[0], dims[1]);
    p.weight = &policy.Declare(store, part.module + ".weight", std::move(dims), site.terms(), true);
    p.first_column = out_features_;
    p.out_features = part.outputs.local_size();
    out_features_ += p.out_features;
    parts_.push_back(p);
  }
  // After all weights, so that those lie side by side.
  for (size_t i = 0; i < site.parts.size(); ++i) {
    if (!site.parts[i].bias) continue;
    // Added behind the sum over cut inputs, to the rows that the rank then has.
    const Placement terms = inputs_cut_ ? axis_.tokens() : site.terms();
    parts_[i].bias =
        &policy.Declare(store, site.parts[i].module + ".bias", {site.parts[i].outputs}, terms, false);
  }
  if (policy.adapter.linear) adapter_ = policy.adapter.linear(site, store);
}

void Linear::Bind() {
  std::vector<Tensor> values, gradients;
  for (const PartParameters& p : parts_) {
    values.push_back(p.weight->value);
    gradients.push_back(p.weight->gradient);
  }
  // Parts stored [in, out] lie side by side as rows, not as the columns that one product needs.
  const Tensor joined = transposed_ ? Tensor() : JoinRows(values);
  const bool all_frozen = !gradients[0].defined() && joined.defined();
  const Tensor joined_gradient = JoinRows(gradients);
  pieces_.clear();
  if (joined.defined() && (all_frozen || joined_gradient.defined())) {
    pieces_.push_back({joined, joined_gradient, 0, out_features_});
  } else {
    for (const PartParameters& p : parts_) {
      pieces_.push_back({p.weight->value, p.weight->gradient, p.first_column, p.out_features});
    }
  }
  if (adapter_) adapter_->Bind(values);
}

void Linear::Refresh(Backend& backend, Stream stream) {
  if (adapter_) adapter_->Refresh(backend, stream);
}

bool Linear::has_trainable() const {
  if (adapter_) return true;
  for (const PartParameters& p : parts_) {
    if (p.weight->trainable || (p.bias != nullptr && p.bias->trainable)) return true;
  }
  return false;
}

void Linear::Product(const Context& context, const Tensor& x, const Tensor& y, bool accumulate) const {
  for (const Piece& piece : pieces_) {
    context.backend.MatMul(context.stream, {.a = x,
                                            .b = piece.weight,
                                            .trans_b = !transposed_,
                                            .c = y.Cols(piece.first_column, piece.out_features),
                                            .beta = accumulate ? 1.0f : 0.0f});
  }
}

void Linear::Forward(const Context& context, const Tensor& x, const Tensor& y, bool accumulate,
                     AdapterSaved* saved) const {
  Backend& backend = context.backend;
  const bool sums_apart = accumulate || axis_.sequence_parallel();
  if (inputs_cut_ ? sums_apart : adapter_ && accumulate && !adapter_->only_adds()) {
    const Tensor product = backend.Allocate(x.rows(), y.cols(), Category::kActivations);
    Product(context, x, product, false);
    if (adapter_) adapter_->Forward(context, x, product, saved);
    const Tensor term = inputs_cut_ ? axis_.Summed(context.stream, product) : product;
    if (accumulate) {
      backend.Add(context.stream, term, y);
    } else {
      backend.Convert(context.stream, term, y);
    }
  } else {
    Product(context, x, y, accumulate);
    if (adapter_) adapter_->Forward(context, x, y, saved);
    if (inputs_cut_) axis_.AllReduce(context.stream, y);
  }
  for (const PartParameters& p : parts_) {
    if (p.bias != nullptr) {
      backend.AddBias(context.stream, p.bias->value, y.Cols(p.first_column, p.out_features));
    }
  }
}

void Linear::ForwardAdapterOnly(const Context& context, const Tensor& x, AdapterSaved* saved) const {
  if (!adapter_ || adapter_->ForwardSavedOnly(context, x, saved)) return;
  const Tensor product = context.backend.Allocate(x.rows(), out_features_, Category::kActivations);
  Product(context, x, product, false);
  adapter_->Forward(context, x, product, saved);
}

Tensor Linear::BackwardInput(const Context& context, const Tensor& dy, const Tensor& dx,
                             AdapterSaved& saved) const {
  const Tensor dproduct = adapter_ ? adapter_->BackwardProduct(context, dy, saved) : dy;
  if (dx.defined()) {
    float beta = 0.0f;
    for (const Piece& piece : pieces_) {
      context.backend.MatMul(context.stream, {.a = dproduct.Cols(piece.first_column, piece.out_features),
                                              .b = piece.weight,
                                              .trans_b = transposed_,
                                              .c = dx,
                                              .beta = beta});
      beta = 1.0f;
    }
  }
  if (adapter_) adapter_->BackwardInput(context, dy, dx, saved);
  return outputs_cut_ && dx.defined() ? axis_.Summed(context.stream, dx) : dx;
}

void Linear::BackwardWeight(const Context& context, const Tensor& dy, const Tensor& x,
                            const AdapterSaved& saved) const {
  for (const Piece& piece : pieces_) {
    if (!piece.gradient.defined()) continue;
    const Tensor dpiece = dy.Cols(piece.first_column, piece.out_features);
    context.backend.MatMul(context.stream, {.a = transposed_ ? x : dpiece,
                                            .trans_a = true,
                                            .b = transposed_ ? dpiece : x,
                                            .c = piece.gradient,
                                            .beta = 1.0f});
  }
  const Tensor dterm = inputs_cut_ ? axis_.OwnRows(dy) : dy;
  for (const PartParameters& p : parts_) {
    if (p.bias == nullptr || !p.bias->trainable) continue;
    context.backend.BiasBackward(context.stream, dterm.Cols(p.first_column, p.out_features),
                                 p.bias->gradient);
  }
  if (adapter_) adapter_->BackwardWeight(context, dy, x, saved);
}

}  // namespace ftune
