#include "engine/model/head_block.h"

#include <algorithm>

#include "base/strings.h"

namespace ftune {
namespace {
enum Slot { kDX };
}  // namespace

HeadBlock::HeadBlock(const ModelConfig& config, const ParameterPolicy& policy,
                     const EmbeddingBlock* embedding)
    : norm_(std::string(config.architecture->names.final_norm), config, config.hidden_size, 1, policy,
            store()),
      weight_(config.tied_head ? &embedding->weight()
                               : &policy.Declare(store(), StrCat(config.architecture->names.head, ".weight"),
                                                 {config.vocab_size, config.hidden_size}, true)),
      vocab_size_(config.vocab_size),
      softcap_(config.logit_softcap) {}

int64_t HeadBlock::ChunkRows(int64_t vocab_size) {
  constexpr int64_t kChunkBytes = int64_t{32} << 20;
  const int64_t rows = kChunkBytes / (vocab_size * int64_t{sizeof(float)});
  return std::max<int64_t>(16, rows / 16 * 16);
}

Tensor HeadBlock::Forward(const Context& context, const Tensor& x, Saved* saved, bool) {
  Backend& backend = context.backend;
  const Stream stream = context.stream;
  const int64_t hidden = x.cols();
  const bool gradients = saved != nullptr && context.training;

  Tensor dx;
  if (gradients) {
    dx = backend.Allocate(x.rows(), hidden, Category::kActivations);
    backend.Zero(stream, dx);
    (*saved)[kDX] = dx;
  }
  const int64_t chunk = std::min(ChunkRows(vocab_size_), x.rows());
  const Tensor picked = backend.Allocate(chunk, hidden, Category::kActivations);
  const Tensor dpicked = gradients ? backend.Allocate(chunk, hidden, Category::kActivations) : Tensor();
  const Tensor logits = backend.Allocate(chunk, vocab_size_, Category::kActivations);
  for (int64_t first = 0; first < context.batch.trained_tokens; first += chunk) {
    const int64_t rows = std::min(chunk, context.batch.trained_tokens - first);
    const Tensor row_ids = context.batch.trained_rows.Cols(first, rows);
    const Tensor inputs = picked.Rows(0, rows);
    const Tensor scores = logits.Rows(0, rows);
    backend.GatherRows(stream, x, row_ids, inputs);
    Tensor rstd;
    const Tensor normed = norm_.Forward(context, inputs, &rstd);
    backend.MatMul(stream, {.a = normed, .b = weight_->value, .trans_b = true, .c = scores});
    backend.CrossEntropy(stream, {.logits = scores,
                                  .labels = context.batch.trained_labels.Cols(first, rows),
                                  .scale = context.loss_scale,
                                  .gradient = gradients,
                                  .loss = context.loss,
                                  .softcap = softcap_,
                                  .label_smoothing = gradients ? context.label_smoothing : 0.0f});
    if (!gradients) continue;
    if (weight_->trainable) {
      backend.MatMul(stream,
                     {.a = scores, .trans_a = true, .b = normed, .c = weight_->gradient, .beta = 1.0f});
    }
    const Tensor dnormed = backend.Allocate(rows, hidden, Category::kActivations);
    backend.MatMul(stream, {.a = scores, .b = weight_->value, .c = dnormed});
    norm_.BackwardWeight(context, dnormed, inputs, rstd);
    const Tensor dinputs = dpicked.Rows(0, rows);
    backend.Zero(stream, dinputs);
    norm_.BackwardInput(context, dnormed, inputs, rstd, dinputs);
    backend.ScatterRows(stream, dinputs, row_ids, dx);
  }
  return {};
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
  const Tensor logits = context.backend.Allocate(x.rows(), vocab_size_, Category::kActivations);
  context.backend.MatMul(context.stream, {.a = normed, .b = weight_->value, .trans_b = true, .c = logits});
  if (softcap_ != 0.0f) context.backend.SoftCap(context.stream, softcap_, logits);
  return logits;
}

}  // namespace ftune
