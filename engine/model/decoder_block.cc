#include "engine/model/decoder_block.h"

#include <cmath>

#include "base/strings.h"

namespace ftune {
namespace {

enum Slot {
  // Of forward. Those from kNormed1 to kAct are recomputed with Keep::kProducts.
  kX,
  kQkv,
  kMid,
  kGateUp,
  kNormed1,
  kRstd1,
  kAttended,
  kLse,
  kNormed2,
  kRstd2,
  kAct,
  // Of the first half of backward, for a second half that runs later.
  kDOut,
  kDMid,
  kDQkv,
  kDNormed1,
  kDNormed2,
};

enum LinearSlot { kQkvLinear, kOutputLinear, kGateUpLinear, kDownLinear };

std::string Prefix(int64_t layer) { return StrCat("model.layers.", layer, "."); }

LinearSite QkvSite(const ModelConfig& c, int64_t layer) {
  const std::string attention = Prefix(layer) + "self_attn.";
  const int64_t q = c.num_heads * c.head_dim;
  const int64_t kv = c.num_kv_heads * c.head_dim;
  return {{{attention + "q_proj", q, c.qkv_bias},
           {attention + "k_proj", kv, c.qkv_bias},
           {attention + "v_proj", kv, c.qkv_bias}},
          c.hidden_size};
}

LinearSite OutputSite(const ModelConfig& c, int64_t layer) {
  return {{{Prefix(layer) + "self_attn.o_proj", c.hidden_size, c.output_bias}}, c.num_heads * c.head_dim};
}

LinearSite GateUpSite(const ModelConfig& c, int64_t layer) {
  const std::string mlp = Prefix(layer) + "mlp.";
  return {{{mlp + "gate_proj", c.intermediate_size, c.mlp_bias},
           {mlp + "up_proj", c.intermediate_size, c.mlp_bias}},
          c.hidden_size};
}

LinearSite DownSite(const ModelConfig& c, int64_t layer) {
  return {{{Prefix(layer) + "mlp.down_proj", c.hidden_size, c.mlp_bias}}, c.intermediate_size};
}

Tensor NewActivation(const Context& context, int64_t rows, int64_t cols) {
  return context.backend.Allocate(rows, cols, Category::kActivations);
}

Tensor Copy(const Context& context, const Tensor& x) {
  const Tensor y = NewActivation(context, x.rows(), x.cols());
  context.backend.Convert(context.stream, x, y);
  return y;
}

}  // namespace

DecoderBlock::DecoderBlock(const ModelConfig& config, int64_t layer, const ParameterPolicy& policy)
    : layer_(layer),
      query_size_(config.num_heads * config.head_dim),
      kv_size_(config.num_kv_heads * config.head_dim),
      intermediate_size_(config.intermediate_size),
      attention_{.heads = config.num_heads,
                 .kv_heads = config.num_kv_heads,
                 .head_dim = config.head_dim,
                 .scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim)),
                 .window = config.layer_window[layer]},
      input_norm_(Prefix(layer) + "input_layernorm", config.hidden_size, config.norm_eps, policy, store()),
      qkv_(QkvSite(config, layer), policy, store()),
      output_(OutputSite(config, layer), policy, store()),
      post_norm_(Prefix(layer) + "post_attention_layernorm", config.hidden_size, config.norm_eps, policy,
                 store()),
      gate_up_(GateUpSite(config, layer), policy, store()),
      down_(DownSite(config, layer), policy, store()) {}

void DecoderBlock::Bind() {
  for (Linear* linear : {&qkv_, &output_, &gate_up_, &down_}) linear->Bind();
}

void DecoderBlock::Refresh(Backend& backend, Stream stream) {
  for (Linear* linear : {&qkv_, &output_, &gate_up_, &down_}) linear->Refresh(backend, stream);
}

Tensor DecoderBlock::Attend(const Context& context, const Tensor& qkv, Tensor* lse) const {
  if (context.cache != nullptr) return AttendCached(context, qkv);
  const Tensor attended = NewActivation(context, qkv.rows(), query_size_);
  if (lse != nullptr) *lse = NewActivation(context, qkv.rows(), attention_.heads);
  context.backend.AttentionForward(context.stream, {.shape = attention_,
                                                    .segments = &context.batch.segments,
                                                    .q = Queries(qkv),
                                                    .k = Keys(qkv),
                                                    .v = Values(qkv),
                                                    .out = attended,
                                                    .lse = lse != nullptr ? *lse : Tensor()});
  return attended;
}

Tensor DecoderBlock::AttendCached(const Context& context, const Tensor& qkv) const {
  const KvCache& cache = (*context.cache)[layer_];
  const int64_t fresh = qkv.rows();
  context.backend.Convert(context.stream, Keys(qkv), cache.keys.Rows(context.cached, fresh));
  context.backend.Convert(context.stream, Values(qkv), cache.values.Rows(context.cached, fresh));
  const Tensor attended = NewActivation(context, fresh, query_size_);
  context.backend.AttentionForward(context.stream, {.shape = attention_,
                                                    .segments = &context.batch.segments,
                                                    .q = Queries(qkv),
                                                    .k = cache.keys.Rows(0, context.cached + fresh),
                                                    .v = cache.values.Rows(0, context.cached + fresh),
                                                    .out = attended});
  return attended;
}

Tensor DecoderBlock::Forward(const Context& context, const Tensor& x, Saved* saved, bool output_needed) {
  Backend& backend = context.backend;
  const int64_t tokens = x.rows();
  const bool keep_all = saved != nullptr && keep_ == Keep::kAll;
  const auto adapter = [&](LinearSlot slot) { return saved != nullptr ? &saved->adapters[slot] : nullptr; };

  Tensor rstd1, lse;
  Tensor normed1 = input_norm_.Forward(context, x, &rstd1);
  const Tensor qkv = NewActivation(context, tokens, qkv_.out_features());
  qkv_.Forward(context, normed1, qkv, false, adapter(kQkvLinear));
  backend.Rope(context.stream, Rotated(qkv), context.batch.positions, rope_table_, attention_.head_dim,
               false);
  if (keep_all) {
    (*saved)[kNormed1] = normed1;
    (*saved)[kRstd1] = rstd1;
  }
  normed1 = Tensor();

  Tensor attended = Attend(context, qkv, keep_all ? &lse : nullptr);
  const Tensor mid = Copy(context, x);
  output_.Forward(context, attended, mid, true, adapter(kOutputLinear));
  if (keep_all) {
    (*saved)[kAttended] = attended;
    (*saved)[kLse] = lse;
  }
  attended = Tensor();

  Tensor rstd2;
  Tensor normed2 = post_norm_.Forward(context, mid, &rstd2);
  const Tensor gate_up = NewActivation(context, tokens, gate_up_.out_features());
  gate_up_.Forward(context, normed2, gate_up, false, adapter(kGateUpLinear));
  if (keep_all) {
    (*saved)[kNormed2] = normed2;
    (*saved)[kRstd2] = rstd2;
  }
  normed2 = Tensor();

  if (saved != nullptr) {
    (*saved)[kX] = x;
    (*saved)[kQkv] = qkv;
    (*saved)[kMid] = mid;
    (*saved)[kGateUp] = gate_up;
  }
  // A recomputed forward still makes the down product where an adapter's share of it must be kept.
  if (!output_needed && !keep_all && !down_.has_adapter()) return {};
  const Tensor act = NewActivation(context, tokens, intermediate_size_);
  backend.SwiGluForward(context.stream, Gate(gate_up), Up(gate_up), act);
  if (keep_all) (*saved)[kAct] = act;
  if (!output_needed) {
    down_.ForwardAdapterOnly(context, act, adapter(kDownLinear));
    return {};
  }
  const Tensor y = Copy(context, mid);
  down_.Forward(context, act, y, true, adapter(kDownLinear));
  return y;
}

Tensor DecoderBlock::BackwardInput(const Context& context, const Tensor& dy, Saved& saved, bool dx_needed,
                                   bool with_weights) {
  BackwardMlp(context, dy, saved, with_weights);
  const Tensor dmid = dy;  // the residual's gradient, to which each half adds its own
  BackwardAttention(context, dmid, saved, dx_needed, with_weights);
  if (with_weights) saved.Clear();
  return dx_needed ? dmid : Tensor();
}

void DecoderBlock::BackwardMlp(const Context& context, const Tensor& dy, Saved& saved, bool with_weights) {
  Backend& backend = context.backend;
  const int64_t tokens = dy.rows();
  if (!with_weights) saved[kDOut] = Copy(context, dy);

  // dgate and dup take the place of gate and up; where act was not kept, it is made again on the way.
  Tensor dact = NewActivation(context, tokens, intermediate_size_);
  down_.BackwardInput(context, dy, dact, saved.adapters[kDownLinear]);
  Tensor remade;
  if (!saved[kAct].defined() && down_.has_trainable()) {
    saved[kAct] = remade = NewActivation(context, tokens, intermediate_size_);
  }
  const Tensor& gate_up = saved[kGateUp];
  backend.SwiGluBackward(context.stream, dact, Gate(gate_up), Up(gate_up), Gate(gate_up), Up(gate_up),
                         remade);
  dact = Tensor();
  remade = Tensor();
  if (with_weights) {
    down_.BackwardWeight(context, dy, saved[kAct], saved.adapters[kDownLinear]);
    saved[kAct] = Tensor();
  }

  if (!saved[kNormed2].defined()) {
    RecomputeScope recompute(backend);
    saved[kNormed2] = post_norm_.Forward(context, saved[kMid], &saved[kRstd2]);
  }
  const Tensor dnormed2 = NewActivation(context, tokens, dy.cols());
  gate_up_.BackwardInput(context, gate_up, dnormed2, saved.adapters[kGateUpLinear]);
  if (with_weights) {
    gate_up_.BackwardWeight(context, gate_up, saved[kNormed2], saved.adapters[kGateUpLinear]);
    post_norm_.BackwardWeight(context, dnormed2, saved[kMid], saved[kRstd2]);
    saved[kNormed2] = saved[kGateUp] = Tensor();
  } else {
    saved[kDNormed2] = dnormed2;
  }
  post_norm_.BackwardInput(context, dnormed2, saved[kMid], saved[kRstd2], dy);
}

void DecoderBlock::BackwardAttention(const Context& context, const Tensor& dmid, Saved& saved, bool dx_needed,
                                     bool with_weights) {
  Backend& backend = context.backend;
  const int64_t tokens = dmid.rows();
  if (with_weights) {
    saved[kMid] = saved[kRstd2] = Tensor();
  } else {
    saved[kDMid] = Copy(context, dmid);
  }

  if (!saved[kAttended].defined()) {
    RecomputeScope recompute(backend);
    saved[kAttended] = Attend(context, saved[kQkv], &saved[kLse]);
  }
  Tensor dattended = NewActivation(context, tokens, query_size_);
  output_.BackwardInput(context, dmid, dattended, saved.adapters[kOutputLinear]);
  if (with_weights) output_.BackwardWeight(context, dmid, saved[kAttended], saved.adapters[kOutputLinear]);

  const Tensor& qkv = saved[kQkv];
  const Tensor dqkv = NewActivation(context, tokens, qkv.cols());
  backend.AttentionBackward(context.stream, {.shape = attention_,
                                             .segments = &context.batch.segments,
                                             .q = Queries(qkv),
                                             .k = Keys(qkv),
                                             .v = Values(qkv),
                                             .out = saved[kAttended],
                                             .lse = saved[kLse],
                                             .dout = dattended,
                                             .dq = Queries(dqkv),
                                             .dk = Keys(dqkv),
                                             .dv = Values(dqkv)});
  dattended = Tensor();
  saved[kQkv] = saved[kLse] = Tensor();
  if (with_weights) saved[kAttended] = Tensor();
  backend.Rope(context.stream, Rotated(dqkv), context.batch.positions, rope_table_, attention_.head_dim,
               true);

  if (!saved[kNormed1].defined()) {
    RecomputeScope recompute(backend);
    saved[kNormed1] = input_norm_.Forward(context, saved[kX], &saved[kRstd1]);
  }
  const bool dnormed_needed = dx_needed || input_norm_.has_trainable();
  const Tensor dnormed1 = dnormed_needed ? NewActivation(context, tokens, dmid.cols()) : Tensor();
  qkv_.BackwardInput(context, dqkv, dnormed1, saved.adapters[kQkvLinear]);
  if (with_weights) {
    qkv_.BackwardWeight(context, dqkv, saved[kNormed1], saved.adapters[kQkvLinear]);
    if (dnormed_needed) input_norm_.BackwardWeight(context, dnormed1, saved[kX], saved[kRstd1]);
  } else {
    saved[kDQkv] = dqkv;
    saved[kDNormed1] = dnormed1;
  }
  if (dx_needed) input_norm_.BackwardInput(context, dnormed1, saved[kX], saved[kRstd1], dmid);
}

void DecoderBlock::BackwardWeight(const Context& context, Saved& saved) {
  down_.BackwardWeight(context, saved[kDOut], saved[kAct], saved.adapters[kDownLinear]);
  gate_up_.BackwardWeight(context, saved[kGateUp], saved[kNormed2], saved.adapters[kGateUpLinear]);
  post_norm_.BackwardWeight(context, saved[kDNormed2], saved[kMid], saved[kRstd2]);
  output_.BackwardWeight(context, saved[kDMid], saved[kAttended], saved.adapters[kOutputLinear]);
  qkv_.BackwardWeight(context, saved[kDQkv], saved[kNormed1], saved.adapters[kQkvLinear]);
  if (saved[kDNormed1].defined()) {
    input_norm_.BackwardWeight(context, saved[kDNormed1], saved[kX], saved[kRstd1]);
  }
  saved.Clear();
}

}  // namespace ftune
