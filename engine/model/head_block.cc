#include "engine/model/head_block.h"

#include <algorithm>

#include "base/strings.h"
#include "engine/model/activations.h"
#include "engine/model/tensor_split.h"

namespace ftune {
namespace {
enum Slot { kDX };

LinearSite SiteOf(const ModelConfig& config, const TensorAxis& axis) {
  return {.parts = {{std::string(config.architecture->names.head),
                     VocabularyDimension(config, axis.position()), false}},
          .inputs = config.hidden_size,
          .head = true,
          .axis = axis};
}

}  // namespace

HeadBlock::HeadBlock(const ModelConfig& config, const TensorAxis& axis, const ParameterPolicy& policy,
                     const Parameter* tied)
    : Block(axis),
      axis_(axis),
      vocabulary_(VocabularyDimension(config, axis.position())),
      norm_(std::string(config.architecture->names.final_norm), config, config.hidden_size, 1,
            SiteOf(config, axis).terms(), policy, store()),
      softcap_(config.logit_softcap) {
  const LinearSite site = SiteOf(config, axis);
  weight_ = config.tied_head ? tied
                             : &policy.Declare(store(), StrCat(config.architecture->names.head, ".weight"),
                                               {vocabulary_, site.inputs}, site.terms(), true);
  if (policy.adapter.linear) adapter_ = policy.adapter.linear(site, store());
}

void HeadBlock::Bind() {
  if (adapter_) adapter_->Bind({weight_->value});
}

void HeadBlock::Refresh(Backend& backend, Stream stream) {
  if (adapter_) adapter_->Refresh(backend, stream);
}

int64_t HeadBlock::ChunkRows(int64_t vocab_size, int64_t bytes) {
  const int64_t rows = bytes / (vocab_size * int64_t{sizeof(float)});
  return std::max<int64_t>(16, rows / 16 * 16);
}

Tensor HeadBlock::Forward(const Context& context, const Tensor& own, Saved* saved, bool) {
  Backend& backend = context.backend;
  const Stream stream = context.stream;
  const Tensor x = Gathered(context, axis_, own);
  const int64_t hidden = x.cols();
  const bool gradients = saved != nullptr && context.training;

  Tensor dx;
  if (gradients) {
    dx = backend.Allocate(x.rows(), hidden, Category::kActivations);
    backend.Zero(stream, dx);
  }
  const int64_t chunk =
      std::min(ChunkRows(vocabulary_.largest_local_size(), backend.sizes().Scores()), x.rows());
  const Tensor picked = backend.Allocate(chunk, hidden, Category::kActivations);
  const Tensor dpicked = gradients ? backend.Allocate(chunk, hidden, Category::kActivations) : Tensor();
  const Tensor logits = backend.Allocate(chunk, vocabulary_.local_size(), Category::kActivations);
  for (int64_t first = 0; first < context.batch.trained_tokens; first += chunk) {
    const int64_t rows = std::min(chunk, context.batch.trained_tokens - first);
    const Tensor row_ids = context.batch.trained_rows.Cols(first, rows);
    const Tensor inputs = picked.Rows(0, rows);
    const Tensor scores = logits.Rows(0, rows);
    backend.GatherRows(stream, x, row_ids, inputs);
    Tensor rstd;
    const Tensor normed = norm_.Forward(context, inputs, &rstd);
    AdapterSaved kept;
    Context chunk_context = context;
    chunk_context.picked_rows = row_ids;
    Score(chunk_context, normed, scores, gradients ? &kept : nullptr);
    const CrossEntropyArgs loss = {.logits = scores,
                                   .labels = context.batch.trained_labels.Cols(first, rows),
                                   .scale = context.loss_scale,
                                   .gradient = gradients,
                                   .loss = context.loss,
                                   .softcap = softcap_,
                                   .label_smoothing = gradients ? context.label_smoothing : 0.0f};
    AddLoss(context, loss);
    if (!gradients) continue;
    const Tensor dnormed = BackwardScore(chunk_context, scores, normed, kept);
    norm_.BackwardWeight(context, dnormed, inputs, rstd);
    const Tensor dinputs = dpicked.Rows(0, rows);
    backend.Zero(stream, dinputs);
    norm_.BackwardInput(context, dnormed, inputs, rstd, dinputs);
    backend.ScatterRows(stream, dinputs, row_ids, dx);
  }
  if (!gradients) return {};
  const Tensor sum = vocabulary_.sharded() ? axis_.Summed(stream, dx) : dx;
  (*saved)[kDX] = axis_.sequence_parallel() ? Copy(context, sum) : sum;  // without the other ranks' rows
  return {};
}

void HeadBlock::AddLoss(const Context& context, const CrossEntropyArgs& args) const {
  Backend& backend = context.backend;
  const Stream stream = context.stream;
  if (!vocabulary_.sharded()) return backend.CrossEntropy(stream, args);
  const int64_t rows = args.logits.rows();
  const CrossEntropySliceArgs slice = {
      .of = args,
      .first_column = vocabulary_.first(),
      .vocabulary = vocabulary_.size(),
      .max = backend.Allocate(1, rows, Category::kActivations),
      .sums = backend.Allocate(DType::kF64, 3, rows, Category::kActivations)};
  backend.CrossEntropyMax(stream, slice);
  axis_.AllReduce(stream, slice.max, ReduceOp::kMax);
  backend.CrossEntropySums(stream, slice);
  axis_.AllReduce(stream, slice.sums);
  backend.CrossEntropyLoss(stream, slice);
}

void HeadBlock::Score(const Context& context, const Tensor& normed, const Tensor& scores,
                      AdapterSaved* saved) const {
  context.backend.MatMul(context.stream, {.a = normed, .b = weight_->value, .trans_b = true, .c = scores});
  if (adapter_) adapter_->Forward(context, normed, scores, saved);
}

Tensor HeadBlock::BackwardScore(const Context& context, const Tensor& dscores, const Tensor& normed,
                                AdapterSaved& saved) const {
  Backend& backend = context.backend;
  if (weight_->trainable) {
    backend.MatMul(context.stream,
                   {.a = dscores, .trans_a = true, .b = normed, .c = weight_->gradient, .beta = 1.0f});
  }
  const Tensor dproduct = adapter_ ? adapter_->BackwardProduct(context, dscores, saved) : dscores;
  const Tensor dnormed = backend.Allocate(normed.rows(), normed.cols(), Category::kActivations);
  backend.MatMul(context.stream, {.a = dproduct, .b = weight_->value, .c = dnormed});
  if (adapter_) {
    adapter_->BackwardInput(context, dscores, dnormed, saved);
    adapter_->BackwardWeight(context, dscores, normed, saved);
  }
  return dnormed;
}

Tensor HeadBlock::BackwardInput(const Context&, const Tensor&, Saved& saved, bool dx_needed, bool) {
  const Tensor dx = saved[kDX];
  saved.Clear();
  return dx_needed ? dx : Tensor();
}

void HeadBlock::BackwardWeight(const Context&, Saved&) {}

Tensor HeadBlock::Logits(const Context& context, const Tensor& x) const {
  Tensor rstd;
  const Tensor normed = norm_.Forward(context, x, &rstd);
  const Tensor logits = context.backend.Allocate(x.rows(), vocabulary_.local_size(), Category::kActivations);
  Score(context, normed, logits, nullptr);
  if (softcap_ != 0.0f) context.backend.SoftCap(context.stream, softcap_, logits);
  return axis_.GatheredColumns(context.backend, context.stream, logits, vocabulary_);
}

}  // namespace ftune
