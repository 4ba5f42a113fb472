#include "engine/adapter/lora_linear.h"

#include "base/random.h"
#include "engine/adapter/lora_names.h"

namespace ftune {

LoraLinear::LoraLinear(const LinearSite& site, const LoraTargets& targets, double dropout,
                       ParameterStore& store)
    : dropout_(static_cast<float>(dropout)), first_input_(site.inputs.first()) {
  int64_t column = 0;
  for (size_t i = 0; i < site.parts.size(); ++i) {
    const LinearPart& part = site.parts[i];
    if (const LoraModule* lora = targets.Find(part.module)) {
      Part p;
      p.site = HashName(part.module);
      p.index = i;
      p.first_column = column;
      p.out_features = part.outputs.local_size();
      p.rank = lora->rank;
      p.first_rank = ranks_;
      p.scale = lora->scale;
      p.a =
          &store.Declare(part.module + kLoraA, {p.rank, site.inputs}, site.terms(), DType::kF32, true, true);
      ranks_ += p.rank;
      parts_.push_back(p);
    }
    column += part.outputs.local_size();
  }
  // After all A, so that those lie side by side.
  for (Part& p : parts_) {
    const LinearPart& part = site.parts[p.index];
    p.b = &store.Declare(part.module + kLoraB, {part.outputs, p.rank}, site.terms(), DType::kF32, true, true);
  }
}

DropoutArgs LoraLinear::Draw(const Context& context, const Part& part) const {
  return {.probability = dropout_,
          .seed = context.seed,
          .step = context.step,
          .site = part.site,
          .first_token = context.batch.first_token,
          .rows = context.picked_rows,
          .first_column = first_input_};
}

void LoraLinear::Bind(const std::vector<Tensor>&) {
  std::vector<Tensor> values, gradients;
  for (const Part& p : parts_) {
    values.push_back(p.a->value);
    gradients.push_back(p.a->gradient);
  }
  all_a_ = JoinRows(values);
  all_da_ = JoinRows(gradients);
}

void LoraLinear::Forward(const Context& context, const Tensor& x, const Tensor& y,
                         AdapterSaved* saved) const {
  const Tensor low = Project(context, x);
  if (saved != nullptr) saved->low = low;
  for (const Part& p : parts_) {
    context.backend.MatMul(context.stream, {.a = p.Ranks(low),
                                            .b = p.b->value,
                                            .trans_b = true,
                                            .c = p.Columns(y),
                                            .alpha = p.scale,
                                            .beta = 1.0f});
  }
}

bool LoraLinear::ForwardSavedOnly(const Context& context, const Tensor& x, AdapterSaved* saved) const {
  if (saved != nullptr) saved->low = Project(context, x);
  return true;
}

void LoraLinear::BackwardInput(const Context& context, const Tensor& dy, const Tensor& dx,
                               AdapterSaved& saved) const {
  Backend& backend = context.backend;
  saved.dlow = backend.Allocate(dy.rows(), ranks_, Category::kActivations);
  for (const Part& p : parts_) {
    backend.MatMul(context.stream,
                   {.a = p.Columns(dy), .b = p.b->value, .c = p.Ranks(saved.dlow), .alpha = p.scale});
  }
  if (!dx.defined()) return;
  if (!drops(context)) {
    backend.MatMul(context.stream, {.a = saved.dlow, .b = all_a_, .c = dx, .beta = 1.0f});
    return;
  }
  const Tensor dinput = backend.Allocate(dx.rows(), dx.cols(), Category::kActivations);
  for (const Part& p : parts_) {
    backend.MatMul(context.stream, {.a = p.Ranks(saved.dlow), .b = p.a->value, .c = dinput});
    backend.Dropout(context.stream, dinput, Draw(context, p), true, dx);
  }
}

void LoraLinear::BackwardWeight(const Context& context, const Tensor& dy, const Tensor& x,
                                const AdapterSaved& saved) const {
  Backend& backend = context.backend;
  for (const Part& p : parts_) {
    backend.MatMul(context.stream, {.a = p.Columns(dy),
                                    .trans_a = true,
                                    .b = p.Ranks(saved.low),
                                    .c = p.b->gradient,
                                    .alpha = p.scale,
                                    .beta = 1.0f});
  }
  ForEachRun(context, x, [&](const Tensor& input, const Tensor& a, const Tensor& da, int64_t first) {
    backend.MatMul(
        context.stream,
        {.a = saved.dlow.Cols(first, a.rows()), .trans_a = true, .b = input, .c = da, .beta = 1.0f});
  });
}

Tensor LoraLinear::Project(const Context& context, const Tensor& x) const {
  const Tensor low = context.backend.Allocate(x.rows(), ranks_, Category::kActivations);
  ForEachRun(context, x, [&](const Tensor& input, const Tensor& a, const Tensor&, int64_t first) {
    context.backend.MatMul(context.stream,
                           {.a = input, .b = a, .trans_b = true, .c = low.Cols(first, a.rows())});
  });
  return low;
}

template <typename Run>
void LoraLinear::ForEachRun(const Context& context, const Tensor& x, const Run& run) const {
  if (!drops(context)) {
    run(x, all_a_, all_da_, 0);
    return;
  }
  const Tensor input = context.backend.Allocate(x.rows(), x.cols(), Category::kActivations);
  for (const Part& p : parts_) {
    context.backend.Dropout(context.stream, x, Draw(context, p), false, input);
    run(input, p.a->value, p.a->gradient, p.first_rank);
  }
}

}  // namespace ftune
