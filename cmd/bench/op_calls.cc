#include "cmd/bench/op_calls.h"

#include <algorithm>
#include <memory>
#include <span>

namespace ftune {
namespace {

using Calls = std::vector<std::function<void()>>;

constexpr int64_t kHeadDim = 64;
constexpr int64_t kVocabulary = 8192;

class Operands {
 public:
  explicit Operands(Backend& backend) : backend_(backend) {}

  Tensor Zeros(DType dtype, int64_t rows, int64_t cols) const {
    const Tensor x = backend_.Allocate(dtype, rows, cols, Category::kBuffers);
    const std::vector<std::byte> zeros(static_cast<size_t>(BytesFor(dtype, x.size())));
    backend_.Upload(Stream(), zeros, x);
    return x;
  }
  Tensor Zeros(int64_t rows, int64_t cols) const { return Zeros(DType::kF32, rows, cols); }
  // 0, step, 2 step, … modulo `size`, as indices.
  Tensor Indices(int64_t count, int64_t step, int64_t size) const {
    std::vector<int32_t> values(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<int32_t>(i * step % size);
    const Tensor x = backend_.Allocate(DType::kI32, 1, count, Category::kBuffers);
    backend_.Upload(Stream(), std::as_bytes(std::span(values)), x);
    return x;
  }

 private:
  Backend& backend_;
};

struct ProductSizes {
  int64_t m = 0, n = 0, k = 0;  // tokens, outputs, inputs
};
// The products of a linear: its outputs, and the gradients of its inputs and of its weight.
struct LinearCalls {
  std::function<void()> forward, inputs, weight;
};

LinearCalls Product(Backend& backend, const Operands& make, DType type, const ProductSizes& s) {
  const Tensor x = make.Zeros(s.m, s.k), w = make.Zeros(type, s.n, s.k), y = make.Zeros(s.m, s.n);
  return {
      [=, &backend] { backend.MatMul(Stream(), {.a = x, .b = w, .trans_b = true, .c = y}); },
      [=, &backend] { backend.MatMul(Stream(), {.a = y, .b = w, .c = x}); },
      [=, &backend] { backend.MatMul(Stream(), {.a = y, .trans_a = true, .b = x, .c = w, .beta = 1.0f}); }};
}

Calls NormCalls(Backend& backend, const Operands& make, const CallSizes& s) {
  const Tensor x = make.Zeros(s.tokens, s.cols), y = make.Zeros(s.tokens, s.cols);
  const Tensor w = make.Zeros(1, s.cols), dw = make.Zeros(1, s.cols), rstd = make.Zeros(s.tokens, 1);
  return {[=, &backend] { backend.RmsNormForward(Stream(), x, w, {}, y, rstd); },
          [=, &backend] { backend.RmsNormBackwardInput(Stream(), y, x, w, {}, rstd, true, y); },
          [=, &backend] { backend.RmsNormBackwardWeight(Stream(), y, x, {}, rstd, dw); }};
}

Calls RopeCalls(Backend& backend, const Operands& make, const CallSizes& s) {
  const Tensor x = make.Zeros(s.tokens, s.cols), table = make.Zeros(s.tokens, kHeadDim);
  const Tensor positions = make.Indices(s.tokens, 1, s.tokens);
  return {[=, &backend] { backend.Rope(Stream(), x, positions, table, kHeadDim, false); },
          [=, &backend] { backend.Rope(Stream(), x, positions, table, kHeadDim, true); }};
}

Calls GateCalls(Backend& backend, const Operands& make, const CallSizes& s) {
  const Tensor gate = make.Zeros(s.tokens, s.cols), up = make.Zeros(s.tokens, s.cols);
  const Tensor out = make.Zeros(s.tokens, s.cols);
  return {
      [=, &backend] { backend.GluForward(Stream(), Activation::kSilu, gate, up, out); },
      [=, &backend] { backend.GluBackward(Stream(), Activation::kSilu, out, gate, up, gate, up, Tensor()); }};
}

Calls LossCalls(Backend& backend, const Operands& make, const CallSizes& s) {
  // As many logits as activations elsewhere.
  const int64_t rows = std::max<int64_t>(1, s.tokens * s.cols / kVocabulary);
  const int64_t cols = std::min(kVocabulary, s.tokens * s.cols);
  const CrossEntropyArgs args = {.logits = make.Zeros(rows, cols),
                                 .labels = make.Indices(rows, 1, cols),
                                 .gradient = true,
                                 .loss = make.Zeros(DType::kF64, 1, 1)};
  return {[=, &backend] { backend.CrossEntropy(Stream(), args); }};
}

Calls EmbeddingCalls(Backend& backend, const Operands& make, const CallSizes& s) {
  const Tensor ids = make.Indices(s.tokens, 37, kVocabulary), out = make.Zeros(s.tokens, s.cols);
  const Tensor table = make.Zeros(kVocabulary, s.cols);
  return {[=, &backend] { backend.EmbeddingForward(Stream(), ids, table, 0, out); },
          [=, &backend] { backend.EmbeddingBackward(Stream(), ids, out, 0, table); }};
}

Calls UpdateCalls(Backend& backend, const Operands& make, const CallSizes& s) {
  const int64_t n = s.tokens * s.cols;
  AdamWArgs args;
  args.update.weights = make.Zeros(1, n);
  args.update.gradients = make.Zeros(1, n);
  args.update.gradient_scale = make.Zeros(1, 1);
  args.update.learning_rate = 1e-3f;
  args.moment1 = make.Zeros(1, n);
  args.moment2 = make.Zeros(1, n);
  return {[=, &backend] { backend.AdamW(Stream(), args); }};
}

Calls CopyCalls(Backend& backend, const Operands& make, const CallSizes& s) {
  const Tensor x = make.Zeros(s.tokens, s.cols), y = make.Zeros(s.tokens, s.cols);
  const Tensor low = make.Zeros(DType::kBF16, s.tokens, s.cols);
  return {[=, &backend] { backend.Add(Stream(), x, y); }, [=, &backend] { backend.Zero(Stream(), x); },
          [=, &backend] { backend.Scale(Stream(), x, 0.5f); },
          [=, &backend] { backend.Convert(Stream(), x, y); },
          [=, &backend] { backend.Convert(Stream(), x, low); }};
}

Calls AttentionCalls(Backend& backend, const Operands& make, const CallSizes& s, bool backward) {
  const int64_t heads = s.cols / kHeadDim, kv_heads = heads % 3 == 0 ? heads / 3 : heads;
  const auto segments = std::make_shared<std::vector<AttentionSegment>>();
  const auto tokens = static_cast<int32_t>(s.tokens);
  segments->push_back({0, tokens, 0, tokens});
  const AttentionShape shape = {.heads = heads, .kv_heads = kv_heads, .head_dim = kHeadDim, .scale = 0.125f};
  const auto queries = [&] { return make.Zeros(s.tokens, s.cols); };
  const auto keys = [&] { return make.Zeros(s.tokens, kv_heads * kHeadDim); };
  const AttentionForwardArgs forward = {.shape = shape,
                                        .segments = segments.get(),
                                        .q = queries(),
                                        .k = keys(),
                                        .v = keys(),
                                        .out = queries(),
                                        .lse = make.Zeros(s.tokens, heads)};
  if (!backward) return {[forward, segments, &backend] { backend.AttentionForward(Stream(), forward); }};
  const AttentionBackwardArgs args = {.shape = shape,
                                      .segments = segments.get(),
                                      .q = forward.q,
                                      .k = forward.k,
                                      .v = forward.v,
                                      .out = forward.out,
                                      .lse = forward.lse,
                                      .dout = queries(),
                                      .dq = queries(),
                                      .dk = keys(),
                                      .dv = keys()};
  return {[args, segments, &backend] { backend.AttentionBackward(Stream(), args); }};
}

}  // namespace

Calls CallsOf(OpClass op, Backend& backend, const CallSizes& sizes) {
  const Operands make(backend);
  switch (op) {
    case OpClass::kProduct:
      return {Product(backend, make, DType::kF32, {sizes.tokens, sizes.cols, sizes.cols}).forward};
    case OpClass::kAttention:
    case OpClass::kAttentionBackward:
      return AttentionCalls(backend, make, sizes, op == OpClass::kAttentionBackward);
    case OpClass::kNorm:
      return NormCalls(backend, make, sizes);
    case OpClass::kRope:
      return RopeCalls(backend, make, sizes);
    case OpClass::kGate:
      return GateCalls(backend, make, sizes);
    case OpClass::kLoss:
      return LossCalls(backend, make, sizes);
    case OpClass::kEmbedding:
      return EmbeddingCalls(backend, make, sizes);
    case OpClass::kUpdate:
      return UpdateCalls(backend, make, sizes);
    case OpClass::kCopy:
      return CopyCalls(backend, make, sizes);
  }
  return {};
}

Calls ProductCalls(Backend& backend, DType weight, int64_t smallest) {
  constexpr int64_t kSide = 1024;
  const Operands make(backend);
  Calls calls;
  // Few outputs, few inputs (adapters, heads of keys), few tokens.
  for (const ProductSizes& sizes :
       {ProductSizes{kSide, smallest, kSide}, ProductSizes{kSide, kSide, smallest},
        ProductSizes{smallest, kSide, kSide}}) {
    const LinearCalls linear = Product(backend, make, weight, sizes);
    calls.insert(calls.end(), {linear.forward, linear.inputs});
    if (weight == DType::kF32) calls.push_back(linear.weight);
    if (smallest == kSide) break;  // the three are one
  }
  return calls;
}

}  // namespace ftune
