// Arguments of the backend's ops. Activations are f32 [tokens, features] unless said otherwise; a "weight"
// operand may be f32, bf16, f16 or a quantised type, its products are in f32.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/backend/activation.h"
#include "engine/backend/optimizer_ops.h"
#include "engine/tensor/tensor.h"

namespace ftune {

// c[m, n] = alpha * op(a) op(b) + beta * c. a and c are f32; b may be a weight of any float type when a is
// not transposed (then trans_b tells whether b is [n, k] (true) or [k, n]).
struct MatMulArgs {
  Tensor a;
  bool trans_a = false;
  Tensor b;
  bool trans_b = false;
  Tensor c;
  float alpha = 1.0f;
  float beta = 0.0f;

  int64_t m() const { return trans_a ? a.cols() : a.rows(); }
  int64_t k() const { return trans_a ? a.rows() : a.cols(); }
  int64_t n() const { return trans_b ? b.rows() : b.cols(); }
};

struct NormOptions {
  float eps = 1e-6f;
  bool unit_offset = false;  // the scale is 1 + w (Gemma)
  int64_t groups = 1;  // each of so many equal parts of a row is normalised by itself, with one w for all
};

// Queries [q_begin, q_begin + q_length) attend causally to keys [k_begin, k_begin + k_length): the last query
// sees the last key, so query i sees keys up to i + k_length - q_length.
struct AttentionSegment {
  int32_t q_begin = 0;
  int32_t q_length = 0;
  int32_t k_begin = 0;
  int32_t k_length = 0;
  bool operator==(const AttentionSegment&) const = default;
};

struct AttentionShape {
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads; query head h uses key head h / (heads / kv_heads)
  int64_t head_dim = 0;
  float scale = 1.0f;
  int64_t window = 0;    // a query sees this many latest keys, itself included; 0 = all
  float softcap = 0.0f;  // c > 0: scores are c * tanh(scale * q·k / c) (Gemma 2)
};

struct AttentionForwardArgs {
  AttentionShape shape;
  const std::vector<AttentionSegment>* segments = nullptr;
  Tensor q;    // [tq, heads * head_dim], rows may be strided
  Tensor k;    // [tk, kv_heads * head_dim]
  Tensor v;    // [tk, kv_heads * head_dim]
  Tensor out;  // [tq, heads * head_dim]
  Tensor lse;  // [tq, heads]: log of the sum of exponentials of the scores, scaled and capped; undefined if
               // not wanted
};

// Overwrites dq, dk, dv. Tokens outside all segments get zeros.
struct AttentionBackwardArgs {
  AttentionShape shape;
  const std::vector<AttentionSegment>* segments = nullptr;
  Tensor q, k, v, out, lse, dout;
  Tensor dq, dk, dv;
};

// Per row: loss += the cross-entropy of softmax(logits) with labels [1, rows] i32; where `gradient`, logits
// become `scale` times its gradient, otherwise they stay.
struct CrossEntropyArgs {
  Tensor logits;
  Tensor labels;  // all trained
  float scale = 1.0f;
  bool gradient = false;
  Tensor loss;           // [1, 1] f64 on the device
  float softcap = 0.0f;  // c > 0: logits are first made c * tanh(logits / c); the gradient goes through it
  float label_smoothing = 0.0f;  // e: the target is (1 - e) * onehot + e / cols, as in torch's cross_entropy
};

// The same of logits [rows, cols] that are columns [first_column, first_column + cols) of `vocabulary`.
struct CrossEntropySliceArgs {
  CrossEntropyArgs of;
  int64_t first_column = 0;
  int64_t vocabulary = 0;  // columns in all
  // Made by CrossEntropyMax: [1, rows] f32, the greatest logit (capped, where there is a cap).
  Tensor max;
  // Made by CrossEntropySums: [3, rows] f64: the sums of exp(logit - max) and of the logits, and the label's
  // logit, which is 0 where it is not among the columns. Logits are added up only for smoothing.
  Tensor sums;
};

// Identifies the draws of one dropout: element (token, column) of site `site` in step `step`.
struct DropoutArgs {
  float probability = 0.0f;
  uint64_t seed = 0;
  uint64_t step = 0;
  uint64_t site = 0;         // which layer and linear, unique in the model
  int64_t first_token = 0;   // global index, within the step, of row 0
  Tensor rows = {};          // [1, rows] i32, where defined: row i is token first_token + rows[i]
  int64_t first_column = 0;  // global index of column 0
};

// Identifies the draws of noise as DropoutArgs does; no dropout may have its `site`.
struct NoiseArgs {
  Tensor amplitudes;  // [1, t] f32, one per row; rows with 0 stay
  uint64_t seed = 0;
  uint64_t step = 0;
  uint64_t site = 0;
  int64_t first_token = 0;
};

}  // namespace ftune
