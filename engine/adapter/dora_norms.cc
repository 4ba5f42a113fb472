#include "engine/adapter/dora_norms.h"

#include <algorithm>
#include <span>
#include <vector>

namespace ftune {
namespace {

constexpr int64_t kChunkBytes = int64_t{16} << 20;
constexpr int64_t kTurned = 64;  // rows that one product turns

Tensor Identity(Backend& backend, Stream stream) {
  std::vector<float> values(kTurned * kTurned, 0.0f);
  for (int64_t i = 0; i < kTurned; ++i) values[i * kTurned + i] = 1.0f;
  const Tensor identity = backend.Allocate(kTurned, kTurned, Category::kBuffers);
  backend.Upload(stream, std::as_bytes(std::span(values)), identity);
  return identity;
}

// A copy in f32 of a type whose columns cannot be cut anywhere.
Tensor Unquantized(Backend& backend, Stream stream, const Tensor& weight) {
  if (!IsQuantized(weight.dtype())) return weight;
  const Tensor plain = backend.Allocate(weight.rows(), weight.cols(), Category::kBuffers);
  backend.Convert(stream, weight, plain);
  return plain;
}

// Stored rows are inputs, columns outputs.
bool IsTurned(const LoraModule& lora) {
  return lora.module.transposed || lora.module.kind == AdaptableModule::Kind::kEmbedding;
}

// Norms over all ranks' inputs, of those over each rank's.
void JoinNorms(Backend& backend, Stream stream, const TensorAxis& axis, const Tensor& norms) {
  const Tensor all = backend.Allocate(norms.size(), axis.size(), Category::kBuffers);
  backend.Zero(stream, all);
  backend.Convert(stream, norms.Reshape(norms.size(), 1), all.Cols(axis.position().rank, 1));
  axis.AllReduce(stream, all);
  backend.RowNorms(stream, all, norms);
}

}  // namespace

TensorAxis AxisOfInputs(const LoraModule& lora, const Parameter& weight, const TensorAxis& axis) {
  return weight.dims[IsTurned(lora) ? 0 : 1].sharded() ? axis : TensorAxis();
}

void DoraNorms(Backend& backend, Stream stream, const LoraModule& lora, const LoraValues& values,
               const Tensor& weight, const TensorAxis& axis, const Tensor& norms) {
  const bool embedding = lora.module.kind == AdaptableModule::Kind::kEmbedding;
  const bool turned = IsTurned(lora);
  const int64_t outputs = norms.size();
  const int64_t inputs = turned ? weight.rows() : weight.cols();
  const int64_t row_bytes = inputs * static_cast<int64_t>(sizeof(float));
  const int64_t most = turned ? kTurned : std::max<int64_t>(16, kChunkBytes / row_bytes);
  const int64_t chunk_rows = std::min(most, outputs);

  const Tensor identity = turned ? Identity(backend, stream) : Tensor();
  const Tensor stored = turned ? Unquantized(backend, stream, weight) : weight;
  const Tensor chunk = backend.Allocate(chunk_rows, inputs, Category::kBuffers);
  for (int64_t first = 0; first < outputs; first += chunk_rows) {
    const int64_t rows = std::min(chunk_rows, outputs - first);
    const Tensor sum = chunk.Rows(0, rows);
    if (turned) {
      backend.MatMul(stream, {.a = identity.Rows(0, rows).Cols(0, rows),
                              .b = stored.Cols(first, rows),
                              .trans_b = true,
                              .c = sum});
    } else {
      backend.Convert(stream, stored.Rows(first, rows), sum);
    }
    backend.MatMul(stream, {.a = values.b.Rows(first, rows),
                            .b = values.a,
                            .trans_b = embedding,
                            .c = sum,
                            .alpha = lora.scale,
                            .beta = 1.0f});
    backend.RowNorms(stream, sum, norms.Cols(first, rows));
  }
  if (axis.size() > 1) JoinNorms(backend, stream, axis, norms);
}

}  // namespace ftune
