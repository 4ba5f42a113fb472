#include "engine/model/attention_layer.h"

#include <cmath>

#include "base/strings.h"
#include "engine/model/activations.h"
#include "engine/model/tensor_split.h"

namespace ftune {
namespace {

enum Slot {
  // Of forward. Keep::kProducts keeps kX, kQkv and kOut, and makes the rest again.
  kX,
  kNormed,
  kStats,
  kQkv,
  kQk,  // with norms of q and k: both as attention takes them; kQkv then holds them as they were
  kQueryStats,
  kKeyStats,
  kAttended,
  kLse,
  kOut,  // with a norm after: what it normalises
  kOutStats,
  // Of the first half of backward, for a second half that runs later.
  kDY,
  kDOut,  // with a norm after
  kDQkv,
  kDNormed,
};
static_assert(kDNormed + 1 == AttentionLayer::kSavedSlots);

enum AdapterSlot { kQkvAdapter, kOutputAdapter };

LinearSite QkvSite(const ModelConfig& c, int64_t layer, const TensorAxis& axis) {
  const ModuleNames& names = c.architecture->names;
  const std::string prefix = LayerPrefix(c, layer);
  LinearSite site = {.inputs = c.hidden_size, .transposed = c.architecture->transposed_linears, .axis = axis};
  if (!names.fused_qkv.empty()) {
    site.parts = {{StrCat(prefix, names.fused_qkv), QkvDimension(c, axis.position()), c.qkv_bias}};
  } else {
    const Dimension q = QueryDimension(c, axis.position());
    const Dimension kv = KeyDimension(c, axis.position());
    site.parts = {{StrCat(prefix, names.query), q, c.qkv_bias},
                  {StrCat(prefix, names.key), kv, c.qkv_bias},
                  {StrCat(prefix, names.value), kv, c.qkv_bias}};
  }
  return site;
}

LinearSite OutputSite(const ModelConfig& c, int64_t layer, const TensorAxis& axis) {
  return {.parts = {{StrCat(LayerPrefix(c, layer), c.architecture->names.attention_output), c.hidden_size,
                     c.output_bias}},
          .inputs = QueryDimension(c, axis.position()),
          .transposed = c.architecture->transposed_linears,
          .axis = axis};
}

AttentionShape ShapeOf(const ModelConfig& c, int64_t layer, const TensorAxis& axis) {
  return {.heads = QueryDimension(c, axis.position()).local_size() / c.head_dim,
          .kv_heads = KeyDimension(c, axis.position()).local_size() / c.head_dim,
          .head_dim = c.head_dim,
          .scale = c.attention_scale != 0.0f ? c.attention_scale
                                             : 1.0f / std::sqrt(static_cast<float>(c.head_dim)),
          .window = c.layer_window[layer],
          .softcap = c.attention_softcap};
}

}  // namespace

AttentionLayer::AttentionLayer(const ModelConfig& c, int64_t layer, const TensorAxis& axis,
                               const ParameterPolicy& policy, ParameterStore& store)
    : axis_(axis),
      layer_(layer),
      query_size_(QueryDimension(c, axis.position()).local_size()),
      kv_size_(KeyDimension(c, axis.position()).local_size()),
      shape_(ShapeOf(c, layer, axis)),
      norm_(StrCat(LayerPrefix(c, layer), c.architecture->names.attention_norm), c, c.hidden_size, 1,
            axis.tokens(), policy, store),
      qkv_(QkvSite(c, layer, axis), policy, store),
      output_(OutputSite(c, layer, axis), policy, store) {
  const ModuleNames& names = c.architecture->names;
  const std::string prefix = LayerPrefix(c, layer);
  if (!names.query_norm.empty()) {
    const Placement heads = axis.size() > 1 ? Placement::Shard(1) : Placement::Replicate();
    query_norm_.emplace(StrCat(prefix, names.query_norm), c, query_size_, shape_.heads, heads, policy, store);
    key_norm_.emplace(StrCat(prefix, names.key_norm), c, kv_size_, shape_.kv_heads, heads, policy, store);
  }
  if (!names.attention_post_norm.empty()) {
    post_norm_.emplace(StrCat(prefix, names.attention_post_norm), c, c.hidden_size, 1, axis.tokens(), policy,
                       store);
  }
}

void AttentionLayer::Bind() {
  qkv_.Bind();
  output_.Bind();
}

void AttentionLayer::Refresh(Backend& backend, Stream stream) {
  for (Linear* linear : {&qkv_, &output_}) linear->Refresh(backend, stream);
}

AttentionLayer::Operands AttentionLayer::Split(const Tensor& qkv) const {
  return {qkv.Cols(0, query_size_), qkv.Cols(query_size_, kv_size_),
          qkv.Cols(query_size_ + kv_size_, kv_size_)};
}

AttentionLayer::Operands AttentionLayer::SavedOperands(const Saved& saved) const {
  Operands operands = Split(saved[kQkv]);
  if (query_norm_) {
    operands.q = saved[kQk].Cols(0, query_size_);
    operands.k = saved[kQk].Cols(query_size_, kv_size_);
  }
  return operands;
}

AttentionLayer::Operands AttentionLayer::Prepare(const Context& context, const Tensor& qkv,
                                                 Saved* saved) const {
  Operands operands = Split(qkv);
  Tensor rotated = qkv.Cols(0, query_size_ + kv_size_);
  if (query_norm_) {
    rotated = NewActivation(context, qkv.rows(), query_size_ + kv_size_);
    Tensor query_stats, key_stats;
    query_norm_->Forward(context, operands.q, rotated.Cols(0, query_size_), &query_stats);
    key_norm_->Forward(context, operands.k, rotated.Cols(query_size_, kv_size_), &key_stats);
    operands.q = rotated.Cols(0, query_size_);
    operands.k = rotated.Cols(query_size_, kv_size_);
    if (saved != nullptr) {
      (*saved)[kQk] = rotated;
      (*saved)[kQueryStats] = query_stats;
      (*saved)[kKeyStats] = key_stats;
    }
  }
  Rotate(context, rotated, false);
  return operands;
}

void AttentionLayer::Rotate(const Context& context, const Tensor& qk, bool inverse) const {
  const Tensor& table = text_positions_ ? context.batch.text_table : rope_table_;
  const Tensor& rows = text_positions_ ? context.batch.text_rows : context.batch.positions;
  if (table.defined()) context.backend.Rope(context.stream, qk, rows, table, shape_.head_dim, inverse);
}

void AttentionLayer::PrepareBackward(const Context& context, const Tensor& dqkv, Saved& saved) const {
  Rotate(context, dqkv.Cols(0, query_size_ + kv_size_), true);
  if (!query_norm_) return;
  const Operands raw = Split(saved[kQkv]);
  const Operands gradients = Split(dqkv);
  // The norms' weights are so small that their share of the second half is done at once: it needs the
  // gradients that are overwritten here.
  query_norm_->BackwardWeight(context, gradients.q, raw.q, saved[kQueryStats]);
  key_norm_->BackwardWeight(context, gradients.k, raw.k, saved[kKeyStats]);
  query_norm_->BackwardInputInto(context, gradients.q, raw.q, saved[kQueryStats], gradients.q);
  key_norm_->BackwardInputInto(context, gradients.k, raw.k, saved[kKeyStats], gradients.k);
  saved[kQk] = saved[kQueryStats] = saved[kKeyStats] = Tensor();
}

Tensor AttentionLayer::Attend(const Context& context, const Operands& operands, Tensor* lse) const {
  if (context.cache != nullptr) return AttendCached(context, operands);
  const Tensor attended = NewActivation(context, operands.q.rows(), query_size_);
  if (lse != nullptr) *lse = NewActivation(context, operands.q.rows(), shape_.heads);
  context.backend.AttentionForward(context.stream, {.shape = shape_,
                                                    .segments = &context.batch.segments,
                                                    .q = operands.q,
                                                    .k = operands.k,
                                                    .v = operands.v,
                                                    .out = attended,
                                                    .lse = lse != nullptr ? *lse : Tensor()});
  return attended;
}

Tensor AttentionLayer::AttendCached(const Context& context, const Operands& operands) const {
  const KvCache& cache = (*context.cache)[layer_];
  const int64_t fresh = operands.q.rows();
  context.backend.Convert(context.stream, operands.k, cache.keys.Rows(context.cached, fresh));
  context.backend.Convert(context.stream, operands.v, cache.values.Rows(context.cached, fresh));
  const Tensor attended = NewActivation(context, fresh, query_size_);
  context.backend.AttentionForward(context.stream, {.shape = shape_,
                                                    .segments = &context.batch.segments,
                                                    .q = operands.q,
                                                    .k = cache.keys.Rows(0, context.cached + fresh),
                                                    .v = cache.values.Rows(0, context.cached + fresh),
                                                    .out = attended});
  return attended;
}

Tensor AttentionLayer::Forward(const Context& context, const Tensor& x, Saved* saved, Keep keep) const {
  Saved* const kept = keep == Keep::kAll ? saved : nullptr;
  const auto adapter = [&](AdapterSlot slot) { return saved != nullptr ? &saved->adapters[slot] : nullptr; };

  Tensor stats;
  Tensor normed = norm_.Forward(context, x, &stats);
  Tensor input = Gathered(context, axis_, normed);
  const Tensor qkv = NewActivation(context, input.rows(), qkv_.out_features());
  qkv_.Forward(context, input, qkv, false, adapter(kQkvAdapter));
  if (saved != nullptr) {
    (*saved)[kX] = x;
    (*saved)[kQkv] = qkv;
  }
  if (kept != nullptr) {
    (*kept)[kNormed] = normed;
    (*kept)[kStats] = stats;
  }
  normed = input = Tensor();

  Tensor lse;
  Tensor attended = Attend(context, Prepare(context, qkv, kept), kept != nullptr ? &lse : nullptr);
  if (kept != nullptr) {
    (*kept)[kAttended] = attended;
    (*kept)[kLse] = lse;
  }
  if (!post_norm_) {
    const Tensor y = Copy(context, x);
    output_.Forward(context, attended, y, true, adapter(kOutputAdapter));
    return y;
  }
  const Tensor out = NewActivation(context, x.rows(), x.cols());
  output_.Forward(context, attended, out, false, adapter(kOutputAdapter));
  attended = Tensor();
  Tensor out_stats;
  const Tensor y = post_norm_->Forward(context, out, &out_stats);
  context.backend.Add(context.stream, x, y);
  if (saved != nullptr) {
    (*saved)[kOut] = out;
    (*saved)[kOutStats] = out_stats;
  }
  return y;
}

void AttentionLayer::BackwardInput(const Context& context, const Tensor& dy, Saved& saved, bool dx_needed,
                                   bool with_weights) const {
  Backend& backend = context.backend;
  const int64_t tokens = saved[kQkv].rows();
  if (!with_weights) saved[kDY] = Copy(context, dy);
  Tensor dout = dy;
  if (post_norm_) {
    dout = NewActivation(context, dy.rows(), dy.cols());
    post_norm_->BackwardInputInto(context, dy, saved[kOut], saved[kOutStats], dout);
    if (with_weights) post_norm_->BackwardWeight(context, dy, saved[kOut], saved[kOutStats]);
  }

  if (!saved[kAttended].defined()) {
    RecomputeScope recompute(backend);
    // Rotated in place where there are no norms of q and k, the kept product is what attention takes.
    if (query_norm_) Prepare(context, saved[kQkv], &saved);
    saved[kAttended] = Attend(context, SavedOperands(saved), &saved[kLse]);
  }
  Tensor dattended = NewActivation(context, tokens, query_size_);
  if (!with_weights && post_norm_) saved[kDOut] = dout;
  dout = Gathered(context, axis_, dout);
  output_.BackwardInput(context, dout, dattended, saved.adapters[kOutputAdapter]);
  if (with_weights) {
    output_.BackwardWeight(context, dout, saved[kAttended], saved.adapters[kOutputAdapter]);
  }
  dout = Tensor();

  const Tensor dqkv = NewActivation(context, tokens, saved[kQkv].cols());
  const Operands operands = SavedOperands(saved);
  const Operands gradients = Split(dqkv);
  backend.AttentionBackward(context.stream, {.shape = shape_,
                                             .segments = &context.batch.segments,
                                             .q = operands.q,
                                             .k = operands.k,
                                             .v = operands.v,
                                             .out = saved[kAttended],
                                             .lse = saved[kLse],
                                             .dout = dattended,
                                             .dq = gradients.q,
                                             .dk = gradients.k,
                                             .dv = gradients.v});
  dattended = Tensor();
  saved[kLse] = Tensor();
  if (with_weights) saved[kAttended] = Tensor();
  PrepareBackward(context, dqkv, saved);
  saved[kQkv] = Tensor();

  if (!saved[kNormed].defined()) {
    RecomputeScope recompute(backend);
    saved[kNormed] = norm_.Forward(context, saved[kX], &saved[kStats]);
  }
  const bool dnormed_needed = dx_needed || norm_.has_trainable();
  Tensor dnormed = dnormed_needed ? NewActivation(context, tokens, dy.cols()) : Tensor();
  dnormed = qkv_.BackwardInput(context, dqkv, dnormed, saved.adapters[kQkvAdapter]);
  if (with_weights) {
    AddQkvGradients(context, dqkv, saved);
    if (dnormed_needed) norm_.BackwardWeight(context, dnormed, saved[kX], saved[kStats]);
  } else {
    saved[kDQkv] = dqkv;
    // Without the other ranks' rows, of which it is a view.
    saved[kDNormed] = axis_.sequence_parallel() && dnormed.defined() ? Copy(context, dnormed) : dnormed;
  }
  if (dx_needed) norm_.BackwardInput(context, dnormed, saved[kX], saved[kStats], dy);
}

void AttentionLayer::AddQkvGradients(const Context& context, const Tensor& dqkv, const Saved& saved) const {
  if (!qkv_.has_trainable()) return;
  qkv_.BackwardWeight(context, dqkv, Gathered(context, axis_, saved[kNormed]), saved.adapters[kQkvAdapter]);
}

void AttentionLayer::BackwardWeight(const Context& context, Saved& saved) const {
  Tensor dout = saved[kDY];
  if (post_norm_) {
    dout = saved[kDOut];
    post_norm_->BackwardWeight(context, saved[kDY], saved[kOut], saved[kOutStats]);
  }
  if (output_.has_trainable()) {
    output_.BackwardWeight(context, Gathered(context, axis_, dout), saved[kAttended],
                           saved.adapters[kOutputAdapter]);
  }
  AddQkvGradients(context, saved[kDQkv], saved);
  if (saved[kDNormed].defined()) norm_.BackwardWeight(context, saved[kDNormed], saved[kX], saved[kStats]);
}

}  // namespace ftune
