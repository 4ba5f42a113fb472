#include "engine/format/model_tensors.h"

#include <cstring>
#include <span>
#include <utility>

#include "base/strings.h"
#include "engine/adapter/dora_norms.h"
#include "engine/adapter/lora_merge.h"
#include "engine/adapter/lora_names.h"

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

// Writes f32 values with rows and columns exchanged.
absl::Status WriteTurned(Backend& backend, Stream stream, const Tensor& values, std::byte* out) {
  std::vector<float> read(values.size()), turned(values.size());
  backend.Download(stream, values, std::as_writable_bytes(std::span(read)));
  const int64_t rows = values.rows(), cols = values.cols();
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) turned[c * rows + r] = read[r * cols + c];
  }
  std::memcpy(out, turned.data(), turned.size() * sizeof(float));
  return absl::OkStatus();
}

// f32 copy of `p`, with the adapter's change where there is one.
Tensor MergedValues(Backend& backend, Stream stream, Model& model, const Parameter& p,
                    const LoraModule* lora) {
  const Tensor merged = backend.Allocate(p.value.rows(), p.value.cols(), Category::kBuffers);
  backend.Convert(stream, p.value, merged);
  if (lora != nullptr) {
    const LoraValues values =
        FindLoraValues(*lora, [&](const std::string& name) { return model.Find(name); });
    MergeLora(backend, stream, *lora, values, AxisOfInputs(*lora, p, model.tensor_axis()), merged);
  }
  return merged;
}

}  // namespace

std::vector<OutputTensor> ModelTensors(Backend& backend, Stream stream, Model& model, DType dtype,
                                       const LoraTargets* merged) {
  std::vector<OutputTensor> tensors;
  for (const Parameter* p : model.parameters()) {
    if (IsAdapterParameter(p->name)) continue;
    const bool is_weight = merged != nullptr && p->name.ends_with(".weight");
    const LoraModule* lora = is_weight ? merged->Find(p->name.substr(0, p->name.rfind('.'))) : nullptr;
    tensors.push_back({.name = p->name,
                       .dtype = dtype,
                       .shape = p->shape,
                       .fill = [&backend, stream, &model, p, lora, dtype](std::byte* out) {
                         // Quantised values pass through f32, which holds them all.
                         const bool direct = lora == nullptr && !IsQuantized(p->dtype);
                         const Tensor values =
                             direct ? p->value : MergedValues(backend, stream, model, *p, lora);
                         return Write(backend, stream, values, dtype, out);
                       }});
  }
  return tensors;
}

std::vector<OutputTensor> AdapterTensors(Backend& backend, Stream stream, Model& model,
                                         const LoraTargets& targets) {
  std::vector<OutputTensor> tensors;
  for (const Parameter* p : model.parameters()) {
    if (!IsAdapterParameter(p->name) && !targets.Saves(p->name)) continue;
    OutputTensor tensor = {.name = p->name, .dtype = DType::kF32, .shape = p->shape};
    if (p->name.ends_with(kLoraEmbeddingA)) {
      std::swap(tensor.shape[0], tensor.shape[1]);
      tensor.fill = [&backend, stream, p](std::byte* out) {
        return WriteTurned(backend, stream, p->value, out);
      };
    } else {
      tensor.fill = [&backend, stream, p](std::byte* out) {
        return Write(backend, stream, p->value, DType::kF32, out);
      };
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace ftune
