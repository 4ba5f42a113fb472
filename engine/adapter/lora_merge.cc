#include "engine/adapter/lora_merge.h"

#include <span>
#include <vector>

#include "engine/adapter/dora_norms.h"

namespace ftune {
namespace {

// The scaled outputs are columns of a weight that is stored [in, out], rows of others.
bool HasOutputsAsColumns(const LoraModule& lora) {
  return lora.module.transposed || lora.module.kind == AdaptableModule::Kind::kEmbedding;
}

void AddProduct(Backend& backend, Stream stream, const LoraModule& lora, const LoraValues& values,
                const Tensor& weight) {
  MatMulArgs product = {.a = values.b, .b = values.a, .c = weight, .alpha = lora.scale, .beta = 1.0f};
  if (HasOutputsAsColumns(lora)) {
    product.a = values.a;
    product.trans_a = lora.module.transposed;  // an embedding's A is stored the other way round
    product.b = values.b;
    product.trans_b = true;
  }
  backend.MatMul(stream, product);
}

void ScaleOutputs(Backend& backend, Stream stream, const LoraModule& lora, const Tensor& factor,
                  const Tensor& weight) {
  if (HasOutputsAsColumns(lora)) {
    backend.ColumnScale(stream, factor, weight, weight);
    return;
  }
  std::vector<float> factors(factor.size());
  backend.Download(stream, factor, std::as_writable_bytes(std::span(factors)));
  for (int64_t row = 0; row < weight.rows(); ++row) {
    backend.Scale(stream, weight.Rows(row, 1), factors[row]);
  }
}

}  // namespace

void MergeLora(Backend& backend, Stream stream, const LoraModule& lora, const LoraValues& values,
               const TensorAxis& axis, const Tensor& weight) {
  if (!values.magnitude.defined()) {
    AddProduct(backend, stream, lora, values, weight);
    return;
  }
  const Tensor factor = backend.Allocate(1, values.magnitude.size(), Category::kBuffers);
  DoraNorms(backend, stream, lora, values, weight, axis, factor);
  backend.Divide(stream, values.magnitude, factor, factor);
  AddProduct(backend, stream, lora, values, weight);
  ScaleOutputs(backend, stream, lora, factor, weight);
}

}  // namespace ftune
