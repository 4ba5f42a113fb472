#include "engine/model/mlp_layer.h"

#include "base/strings.h"
#include "engine/model/activations.h"
#include "engine/model/tensor_split.h"

namespace ftune {
namespace {

enum Slot {
  // Of forward. Keep::kProducts keeps kX, kInner and kOut, and makes the rest again.
  kX = MlpLayer::kFirstSlot,
  kNormed,
  kStats,
  kInner,
  kAct,
  kOut,  // with a norm after: what it normalises
  kOutStats,
  // Of the first half of backward, for a second half that runs later; kInner then holds its own gradient.
  kDY,
  kDOut,  // with a norm after
  kDNormed,
  kEnd,
};
static_assert(kEnd <= Saved::kSlots);

enum AdapterSlot { kInnerAdapter = MlpLayer::kFirstAdapter, kDownAdapter };

LinearSite InnerSite(const ModelConfig& c, int64_t layer, const TensorAxis& axis) {
  const ModuleNames& names = c.architecture->names;
  const std::string prefix = LayerPrefix(c, layer);
  LinearSite site = {.inputs = c.hidden_size, .transposed = c.architecture->transposed_linears, .axis = axis};
  if (!names.fused_gate_up.empty()) {
    site.parts = {{StrCat(prefix, names.fused_gate_up), GateUpDimension(c, axis.position()), c.mlp_bias}};
    return site;
  }
  const Dimension outputs = IntermediateDimension(c, axis.position());
  if (!names.gate.empty()) site.parts.push_back({StrCat(prefix, names.gate), outputs, c.mlp_bias});
  site.parts.push_back({StrCat(prefix, names.up), outputs, c.mlp_bias});
  return site;
}

LinearSite DownSite(const ModelConfig& c, int64_t layer, const TensorAxis& axis) {
  return {.parts = {{StrCat(LayerPrefix(c, layer), c.architecture->names.down), c.hidden_size, c.mlp_bias}},
          .inputs = IntermediateDimension(c, axis.position()),
          .transposed = c.architecture->transposed_linears,
          .axis = axis};
}

}  // namespace

MlpLayer::MlpLayer(const ModelConfig& c, int64_t layer, const TensorAxis& axis, const ParameterPolicy& policy,
                   ParameterStore& store)
    : axis_(axis),
      gated_(c.architecture->has_gate()),
      activation_(c.activation),
      intermediate_size_(IntermediateDimension(c, axis.position()).local_size()),
      norm_(StrCat(LayerPrefix(c, layer), c.architecture->names.mlp_norm), c, c.hidden_size, 1, axis.tokens(),
            policy, store),
      inner_(InnerSite(c, layer, axis), policy, store),
      down_(DownSite(c, layer, axis), policy, store) {
  const std::string_view post_norm = c.architecture->names.mlp_post_norm;
  if (!post_norm.empty()) {
    post_norm_.emplace(StrCat(LayerPrefix(c, layer), post_norm), c, c.hidden_size, 1, axis.tokens(), policy,
                       store);
  }
}

void MlpLayer::Bind() {
  inner_.Bind();
  down_.Bind();
}

void MlpLayer::Refresh(Backend& backend, Stream stream) {
  for (Linear* linear : {&inner_, &down_}) linear->Refresh(backend, stream);
}

void MlpLayer::Activate(const Context& context, const Tensor& inner, const Tensor& act) const {
  if (!gated_) {
    context.backend.ActivationForward(context.stream, activation_, inner, act);
    return;
  }
  context.backend.GluForward(context.stream, activation_, inner.Cols(0, intermediate_size_),
                             inner.Cols(intermediate_size_, intermediate_size_), act);
}

void MlpLayer::ActivateBackward(const Context& context, const Tensor& dact, const Tensor& inner,
                                const Tensor& act) const {
  if (!gated_) {
    context.backend.ActivationBackward(context.stream, activation_, dact, inner, inner, act);
    return;
  }
  const Tensor gate = inner.Cols(0, intermediate_size_);
  const Tensor up = inner.Cols(intermediate_size_, intermediate_size_);
  context.backend.GluBackward(context.stream, activation_, dact, gate, up, gate, up, act);
}

void MlpLayer::AddDown(const Context& context, const Tensor& act, const Tensor& y, Saved* saved) const {
  AdapterSaved* adapter = saved != nullptr ? &saved->adapters[kDownAdapter] : nullptr;
  if (!post_norm_) {
    down_.Forward(context, act, y, true, adapter);
    return;
  }
  const Tensor out = NewActivation(context, y.rows(), y.cols());
  down_.Forward(context, act, out, false, adapter);
  Tensor stats;
  context.backend.Add(context.stream, post_norm_->Forward(context, out, &stats), y);
  if (saved != nullptr) {
    (*saved)[kOut] = out;
    (*saved)[kOutStats] = stats;
  }
}

Tensor MlpLayer::Forward(const Context& context, const Tensor& x, Saved* saved, Keep keep,
                         bool output_needed) const {
  Saved* const kept = keep == Keep::kAll ? saved : nullptr;
  Tensor stats;
  Tensor normed = norm_.Forward(context, x, &stats);
  Tensor input = Gathered(context, axis_, normed);
  const Tensor inner = NewActivation(context, input.rows(), inner_.out_features());
  inner_.Forward(context, input, inner, false, saved != nullptr ? &saved->adapters[kInnerAdapter] : nullptr);
  if (kept != nullptr) {
    (*kept)[kNormed] = normed;
    (*kept)[kStats] = stats;
  }
  normed = input = Tensor();
  if (saved != nullptr) {
    (*saved)[kX] = x;
    (*saved)[kInner] = inner;
  }

  // A recomputed forward still needs what a norm after takes, and an adapter's share of the down product.
  const bool down_needed = output_needed || post_norm_.has_value();
  if (!down_needed && kept == nullptr && !down_.has_adapter()) return {};
  const Tensor act = NewActivation(context, inner.rows(), intermediate_size_);
  Activate(context, inner, act);
  if (kept != nullptr) (*kept)[kAct] = act;
  if (!down_needed) {
    down_.ForwardAdapterOnly(context, act, saved != nullptr ? &saved->adapters[kDownAdapter] : nullptr);
    return {};
  }
  const Tensor y = Copy(context, x);
  AddDown(context, act, y, saved);
  return y;
}

void MlpLayer::BackwardInput(const Context& context, const Tensor& dy, Saved& saved,
                             bool with_weights) const {
  const int64_t tokens = saved[kInner].rows();
  if (!with_weights) saved[kDY] = Copy(context, dy);
  Tensor dout = dy;
  if (post_norm_) {
    dout = NewActivation(context, dy.rows(), dy.cols());
    post_norm_->BackwardInputInto(context, dy, saved[kOut], saved[kOutStats], dout);
    if (with_weights) {
      post_norm_->BackwardWeight(context, dy, saved[kOut], saved[kOutStats]);
      saved[kOut] = saved[kOutStats] = Tensor();
    } else {
      saved[kDOut] = dout;
    }
  }

  // The inner product's gradient takes its place; where act was not kept, it is made again on the way.
  dout = Gathered(context, axis_, dout);
  Tensor dact = NewActivation(context, tokens, intermediate_size_);
  down_.BackwardInput(context, dout, dact, saved.adapters[kDownAdapter]);
  Tensor remade;
  if (!saved[kAct].defined() && down_.has_trainable()) {
    saved[kAct] = remade = NewActivation(context, tokens, intermediate_size_);
  }
  const Tensor inner = saved[kInner];
  ActivateBackward(context, dact, inner, remade);
  dact = Tensor();
  remade = Tensor();
  if (with_weights) {
    down_.BackwardWeight(context, dout, saved[kAct], saved.adapters[kDownAdapter]);
    saved[kAct] = Tensor();
  }
  dout = Tensor();

  if (!saved[kNormed].defined()) {
    RecomputeScope recompute(context.backend);
    saved[kNormed] = norm_.Forward(context, saved[kX], &saved[kStats]);
  }
  const Tensor dnormed = inner_.BackwardInput(context, inner, NewActivation(context, tokens, dy.cols()),
                                              saved.adapters[kInnerAdapter]);
  if (with_weights) {
    AddInnerGradients(context, inner, saved);
    norm_.BackwardWeight(context, dnormed, saved[kX], saved[kStats]);
    saved[kNormed] = saved[kInner] = Tensor();
  } else {
    // Without the other ranks' rows, of which it is a view.
    saved[kDNormed] = axis_.sequence_parallel() ? Copy(context, dnormed) : dnormed;
  }
  norm_.BackwardInput(context, dnormed, saved[kX], saved[kStats], dy);
  if (with_weights) saved[kX] = saved[kStats] = Tensor();
}

void MlpLayer::AddInnerGradients(const Context& context, const Tensor& dinner, const Saved& saved) const {
  if (!inner_.has_trainable()) return;
  inner_.BackwardWeight(context, dinner, Gathered(context, axis_, saved[kNormed]),
                        saved.adapters[kInnerAdapter]);
}

void MlpLayer::BackwardWeight(const Context& context, Saved& saved) const {
  Tensor dout = saved[kDY];
  if (post_norm_) {
    dout = saved[kDOut];
    post_norm_->BackwardWeight(context, saved[kDY], saved[kOut], saved[kOutStats]);
  }
  if (down_.has_trainable()) {
    down_.BackwardWeight(context, Gathered(context, axis_, dout), saved[kAct], saved.adapters[kDownAdapter]);
  }
  AddInnerGradients(context, saved[kInner], saved);
  norm_.BackwardWeight(context, saved[kDNormed], saved[kX], saved[kStats]);
}

}  // namespace ftune
