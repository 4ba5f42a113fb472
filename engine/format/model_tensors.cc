#include "engine/format/model_tensors.h"

#include <span>

#include "base/strings.h"
#include "engine/adapter/lora.h"
#include "engine/format/load_weights.h"

namespace ftune {
namespace {

absl::Status Write(Backend& backend, Stream stream, const Tensor& values, DType dtype, std::byte* out) {
  const std::span<std::byte> bytes(out, BytesFor(dtype, values.size()));
  if (values.dtype() == dtype) {
    backend.Download(stream, values, bytes);
    return absl::OkStatus();
  }
  const Tensor rounded = backend.Allocate(dtype, values.rows(), values.cols(), Category::kBuffers);
  backend.Convert(stream, values, rounded);
  backend.Download(stream, rounded, bytes);
  return absl::OkStatus();
}

// f32 copy of `p`, plus scale * B A where there are such.
Tensor MergedValues(Backend& backend, Stream stream, const Parameter& p, const Parameter* a,
                    const Parameter* b, double scale) {
  const Tensor merged = backend.Allocate(p.value.rows(), p.value.cols(), Category::kBuffers);
  backend.Convert(stream, p.value, merged);
  if (a != nullptr) {
    backend.MatMul(
        stream,
        {.a = b->value, .b = a->value, .c = merged, .alpha = static_cast<float>(scale), .beta = 1.0f});
  }
  return merged;
}

}  // namespace

std::vector<OutputTensor> ModelTensors(Backend& backend, Stream stream, Model& model, DType dtype,
                                       double lora_scale) {
  std::vector<OutputTensor> tensors;
  for (const Parameter* p : model.parameters()) {
    if (IsAdapterParameter(p->name)) continue;
    const std::string module = p->name.substr(0, p->name.rfind('.'));
    const bool merges = lora_scale != 0.0 && p->name.ends_with(".weight");
    const Parameter* a = merges ? model.Find(StrCat(module, kLoraA)) : nullptr;
    const Parameter* b = merges ? model.Find(StrCat(module, kLoraB)) : nullptr;
    tensors.push_back({.name = p->name,
                       .dtype = dtype,
                       .shape = p->shape,
                       .fill = [&backend, stream, p, a, b, lora_scale, dtype](std::byte* out) {
                         // Quantised values pass through f32, which holds them all.
                         const bool direct = a == nullptr && !IsQuantized(p->dtype);
                         const Tensor values =
                             direct ? p->value : MergedValues(backend, stream, *p, a, b, lora_scale);
                         return Write(backend, stream, values, dtype, out);
                       }});
  }
  return tensors;
}

std::vector<OutputTensor> AdapterTensors(Backend& backend, Stream stream, Model& model) {
  std::vector<OutputTensor> tensors;
  for (const Parameter* p : model.parameters()) {
    if (!IsAdapterParameter(p->name)) continue;
    tensors.push_back({.name = p->name,
                       .dtype = DType::kF32,
                       .shape = p->shape,
                       .fill = [&backend, stream, p](std::byte* out) {
                         return Write(backend, stream, p->value, DType::kF32, out);
                       }});
  }
  return tensors;
}

}  // namespace ftune
