#include "engine/adapter/dora.h"

#include "base/strings.h"
#include "engine/adapter/dora_norms.h"
#include "engine/adapter/lora_names.h"

namespace ftune {
namespace {

Tensor NewLike(const Context& context, const Tensor& x) {
  return context.backend.Allocate(x.rows(), x.cols(), Category::kActivations);
}

Tensor Copy(const Context& context, const Tensor& x) {
  const Tensor y = NewLike(context, x);
  context.backend.Convert(context.stream, x, y);
  return y;
}

}  // namespace

DoraMagnitude::DoraMagnitude(const LoraModule& lora, const Dimension& outputs, const TensorAxis& axis,
                             Placement terms, ParameterStore& store)
    : lora_(lora),
      axis_(axis),
      magnitude_(&store.Declare(StrCat(lora.module.name, kLoraMagnitude), {outputs}, terms, DType::kF32, true,
                                false)) {}

void DoraMagnitude::Refresh(Backend& backend, Stream stream, const LoraValues& values, const Tensor& weight) {
  if (!norms_.defined()) {
    norms_ = backend.Allocate(1, magnitude_->size(), Category::kBuffers);
    factor_ = backend.Allocate(1, magnitude_->size(), Category::kBuffers);
  }
  DoraNorms(backend, stream, lora_, values, weight, axis_, norms_);
  backend.Divide(stream, magnitude_->value, norms_, factor_);
}

void DoraMagnitude::Backward(const Context& context, const Tensor& dy, const Tensor& product) const {
  Backend& backend = context.backend;
  const Tensor sum = backend.Allocate(1, norms_.size(), Category::kActivations);
  backend.Zero(context.stream, sum);
  backend.ColumnDot(context.stream, dy, product, sum);
  backend.Divide(context.stream, sum, norms_, sum);
  backend.Add(context.stream, sum, magnitude_->gradient);
}

DoraLinear::DoraLinear(const LinearSite& site, const LoraTargets& targets, double dropout,
                       ParameterStore& store)
    : lora_(site, targets, dropout, store), transposed_(site.transposed) {
  for (const LoraLinear::Part& p : lora_.parts()) {
    const LinearPart& part = site.parts[p.index];
    magnitudes_.emplace_back(*targets.Find(part.module), part.outputs,
                             site.inputs_cut() ? site.axis : TensorAxis(), site.terms(), store);
  }
}

void DoraLinear::Bind(const std::vector<Tensor>& weights) {
  lora_.Bind(weights);
  weights_.clear();
  for (const LoraLinear::Part& p : lora_.parts()) weights_.push_back(weights[p.index]);
}

void DoraLinear::Refresh(Backend& backend, Stream stream) {
  for (size_t i = 0; i < magnitudes_.size(); ++i) {
    const LoraLinear::Part& p = lora_.parts()[i];
    magnitudes_[i].Refresh(backend, stream, {.a = p.a->value, .b = p.b->value}, weights_[i]);
  }
}

void DoraLinear::Forward(const Context& context, const Tensor& x, const Tensor& y,
                         AdapterSaved* saved) const {
  if (lora_.drops(context)) return ForwardDropping(context, x, y, saved);
  lora_.Forward(context, x, y, saved);
  if (saved != nullptr) saved->product = Copy(context, y);
  for (size_t i = 0; i < magnitudes_.size(); ++i) {
    const Tensor part = lora_.parts()[i].Columns(y);
    context.backend.ColumnScale(context.stream, magnitudes_[i].factor(), part, part);
  }
}

void DoraLinear::ForwardDropping(const Context& context, const Tensor& x, const Tensor& y,
                                 AdapterSaved* saved) const {
  Backend& backend = context.backend;
  const Tensor product = NewLike(context, y);  // of dropout(x): what the magnitudes scale
  const Tensor input = NewLike(context, x);
  for (size_t i = 0; i < magnitudes_.size(); ++i) {
    const LoraLinear::Part& p = lora_.parts()[i];
    backend.Dropout(context.stream, x, lora_.Draw(context, p), false, input);
    backend.MatMul(context.stream,
                   {.a = input, .b = weights_[i], .trans_b = !transposed_, .c = p.Columns(product)});
    const Tensor less = Copy(context, p.Columns(product));
    backend.Scale(context.stream, less, -1.0f);
    backend.Add(context.stream, less, p.Columns(y));
  }
  lora_.Forward(context, x, product, saved);
  for (size_t i = 0; i < magnitudes_.size(); ++i) {
    const LoraLinear::Part& p = lora_.parts()[i];
    const Tensor scaled = NewLike(context, p.Columns(product));
    backend.ColumnScale(context.stream, magnitudes_[i].factor(), p.Columns(product), scaled);
    backend.Add(context.stream, scaled, p.Columns(y));
  }
  if (saved != nullptr) saved->product = product;
}

Tensor DoraLinear::BackwardProduct(const Context& context, const Tensor& dy, AdapterSaved& saved) const {
  saved.dproduct = Copy(context, dy);
  for (size_t i = 0; i < magnitudes_.size(); ++i) {
    const Tensor part = lora_.parts()[i].Columns(saved.dproduct);
    context.backend.ColumnScale(context.stream, magnitudes_[i].factor(), part, part);
  }
  return lora_.drops(context) ? dy : saved.dproduct;
}

void DoraLinear::BackwardInput(const Context& context, const Tensor& dy, const Tensor& dx,
                               AdapterSaved& saved) const {
  lora_.BackwardInput(context, saved.dproduct, dx, saved);
  if (!dx.defined() || !lora_.drops(context)) return;
  // The share of (f - 1) ⊙ dropout(x) Wᵀ.
  Backend& backend = context.backend;
  const Tensor dinput = NewLike(context, dx);
  for (size_t i = 0; i < magnitudes_.size(); ++i) {
    const LoraLinear::Part& p = lora_.parts()[i];
    const Tensor difference = Copy(context, p.Columns(dy));
    backend.Scale(context.stream, difference, -1.0f);
    backend.Add(context.stream, p.Columns(saved.dproduct), difference);
    backend.MatMul(context.stream, {.a = difference, .b = weights_[i], .trans_b = transposed_, .c = dinput});
    backend.Dropout(context.stream, dinput, lora_.Draw(context, p), true, dx);
  }
}

void DoraLinear::BackwardWeight(const Context& context, const Tensor& dy, const Tensor& x,
                                const AdapterSaved& saved) const {
  lora_.BackwardWeight(context, saved.dproduct, x, saved);
  for (size_t i = 0; i < magnitudes_.size(); ++i) {
    const LoraLinear::Part& p = lora_.parts()[i];
    magnitudes_[i].Backward(context, p.Columns(dy), p.Columns(saved.product));
  }
}

DoraEmbedding::DoraEmbedding(const EmbeddingSite& site, const LoraModule& lora, ParameterStore& store)
    : lora_(site, lora, store),
      magnitude_(lora, site.hidden_size, site.vocabulary.sharded() ? site.axis : TensorAxis(), site.terms(),
                 store) {}

void DoraEmbedding::Refresh(Backend& backend, Stream stream) {
  magnitude_.Refresh(backend, stream, {.a = lora_.a().value, .b = lora_.b().value}, table_);
}

void DoraEmbedding::Forward(const Context& context, const Tensor& y, AdapterSaved* saved) const {
  lora_.Forward(context, y, saved);
  if (saved != nullptr) saved->product = Copy(context, y);
  context.backend.ColumnScale(context.stream, magnitude_.factor(), y, y);
}

void DoraEmbedding::Backward(const Context& context, const Tensor& dy, AdapterSaved& saved) const {
  const Tensor dproduct = NewLike(context, dy);
  context.backend.ColumnScale(context.stream, magnitude_.factor(), dy, dproduct);
  lora_.Backward(context, dproduct, saved);
  magnitude_.Backward(context, dy, saved.product);
}

}  // namespace ftune
