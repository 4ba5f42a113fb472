#include "engine/format/model_tensors.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "engine/adapter/dora_norms.h"
#include "engine/adapter/lora_merge.h"
#include "engine/adapter/lora_names.h"
#include "engine/model/slices.h"

namespace ftune {
namespace {

// Writes all of the parameter, of which `values` are what this rank has.
absl::Status Write(Backend& backend, Stream stream, const TensorAxis& axis, const Parameter& p,
                   const Tensor& values, DType dtype, std::byte* out) {
  Tensor rounded = values;
  if (values.dtype() != dtype) {
    rounded = backend.Allocate(dtype, values.rows(), values.cols(), Category::kBuffers);
    backend.Convert(stream, values, rounded);
  }
  const int64_t bytes = BytesFor(dtype, values.size());
  if (p.placement() == Placement::Replicate()) {
    backend.Download(stream, rounded, {out, static_cast<size_t>(bytes)});
    return absl::OkStatus();
  }
  std::vector<std::byte> own(bytes);
  backend.Download(stream, rounded, own);
  GatherWhole(axis, p, dtype, own, out);
  return axis.status();
}

// The same of f32 values, with rows and columns exchanged.
absl::Status WriteTurned(Backend& backend, Stream stream, const TensorAxis& axis, const Parameter& p,
                         std::byte* out) {
  const int64_t rows = p.shape[0], cols = p.shape[1];
  std::vector<float> read(p.global_size()), turned(p.global_size());
  FTUNE_RETURN_IF_ERROR(
      Write(backend, stream, axis, p, p.value, DType::kF32, std::as_writable_bytes(std::span(read)).data()));
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
  for (size_t block = 0; block < model.blocks().size(); ++block) {
    if (model.blocks()[block]->copy()) continue;  // the other home's
    for (const Parameter& parameter : model.blocks()[block]->store().parameters()) {
      const Parameter* const p = &parameter;
      if (IsAdapterParameter(p->name)) continue;
      const bool is_weight = merged != nullptr && p->name.ends_with(".weight");
      const LoraModule* lora = is_weight ? merged->Find(p->name.substr(0, p->name.rfind('.'))) : nullptr;
      tensors.push_back({.name = p->name,
                         .dtype = dtype,
                         .shape = p->shape,
                         .fill =
                             [&backend, stream, &model, block, p, lora, dtype](std::byte* out) {
                               const BlockUse use(model.hooks(), block);
                               // Quantised values pass through f32, which holds them all.
                               const bool direct = lora == nullptr && !IsQuantized(p->dtype);
                               FTUNE_RETURN_IF_ERROR(model.hooks().status());
                               const Tensor values =
                                   direct ? p->value : MergedValues(backend, stream, model, *p, lora);
                               return Write(backend, stream, model.tensor_axis(), *p, values, dtype, out);
                             },
                         .block = model.blocks()[block]->number()});
    }
  }
  return tensors;
}

std::vector<OutputTensor> AdapterTensors(Backend& backend, Stream stream, Model& model,
                                         const LoraTargets& targets) {
  std::vector<OutputTensor> tensors;
  for (size_t block = 0; block < model.blocks().size(); ++block) {
    if (model.blocks()[block]->copy()) continue;
    for (const Parameter& parameter : model.blocks()[block]->store().parameters()) {
      const Parameter* const p = &parameter;
      if (!IsAdapterParameter(p->name) && !targets.Saves(p->name)) continue;
      const bool turned = p->name.ends_with(kLoraEmbeddingA);
      OutputTensor tensor = {
          .name = p->name, .dtype = DType::kF32, .shape = p->shape, .block = model.blocks()[block]->number()};
      if (turned) std::swap(tensor.shape[0], tensor.shape[1]);
      tensor.fill = [&backend, stream, &model, block, p, turned](std::byte* out) {
        const BlockUse use(model.hooks(), block);
        FTUNE_RETURN_IF_ERROR(model.hooks().status());
        return turned ? WriteTurned(backend, stream, model.tensor_axis(), *p, out)
                      : Write(backend, stream, model.tensor_axis(), *p, p->value, DType::kF32, out);
      };
      tensors.push_back(std::move(tensor));
    }
  }
  const ModuleNames& names = model.config().architecture->names;
  const std::string embedding = StrCat(names.embedding, ".weight");
  const auto end = std::find_if(tensors.begin(), tensors.end(),
                                [&](const OutputTensor& tensor) { return tensor.name == embedding; });
  if (model.config().tied_head && end != tensors.end()) {
    OutputTensor head = *end;
    head.name = StrCat(names.head, ".weight");
    head.block = model.total_blocks();
    tensors.push_back(std::move(head));
  }
  return tensors;
}

}  // namespace ftune
