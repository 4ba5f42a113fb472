#include "engine/format/load_weights.h"

#include <set>
#include <vector>

#include "base/convert.h"
#include "base/error.h"
#include "base/strings.h"
#include "engine/adapter/lora_names.h"
#include "engine/format/quantized_weights.h"
#include "engine/format/tensor_slice.h"
#include "engine/model/modules.h"

namespace ftune {
namespace {

constexpr std::string_view kWeight = ".weight";

absl::Status CheckShape(const SourceTensor& tensor, const Parameter& parameter) {
  if (tensor.shape == parameter.shape) return absl::OkStatus();
  return DataError({.file = tensor.file,
                    .key = tensor.name,
                    .found = StrCat("shape [", StrJoin(tensor.shape, ", "), "]"),
                    .expected = StrCat("[", StrJoin(parameter.shape, ", "), "], as config.json says")});
}

// The tensor in fp32 with what is to be added to it.
std::vector<float> WithAdded(const SourceTensor& tensor, int64_t count) {
  std::vector<float> values(count);
  ConvertToF32(tensor.dtype, tensor.bytes.data(), count, values.data());
  for (float& value : values) value += tensor.added;
  return values;
}

void CopyIn(Backend& backend, Stream stream, const SourceTensor& tensor, const Parameter& parameter) {
  if (tensor.added != 0.0f && backend.computes()) {
    const std::vector<float> values = WithAdded(tensor, parameter.size());
    const auto bytes = std::as_bytes(std::span(values));
    const SourceTensor changed = {
        .name = tensor.name, .shape = tensor.shape, .bytes = bytes, .file = tensor.file};
    return CopyIn(backend, stream, changed, parameter);
  }
  std::vector<std::byte> reordered;
  std::span<const std::byte> bytes = tensor.bytes;
  if (tensor.interleaved_heads > 0 && backend.computes()) {
    reordered.resize(bytes.size());
    CopySourceTensor(tensor, reordered.data());
    bytes = reordered;
  }
  if (tensor.dtype == parameter.dtype) {
    backend.Upload(stream, bytes, parameter.value);
    return;
  }
  const Tensor staged =
      backend.Allocate(tensor.dtype, parameter.value.rows(), parameter.value.cols(), Category::kBuffers);
  backend.Upload(stream, bytes, staged);
  backend.Convert(stream, staged, parameter.value);
}

}  // namespace

absl::Status CheckLoadable(const SourceTensor& tensor, const Parameter& parameter) {
  if (!IsFloat(tensor.dtype)) {
    return DataError({.file = tensor.file,
                      .key = tensor.name,
                      .found = StrCat("dtype ", Name(tensor.dtype)),
                      .expected = "a floating-point type"});
  }
  return CheckShape(tensor, parameter);
}

absl::Status LoadParameter(Backend& backend, Stream stream, const SourceTensor& tensor,
                           const Parameter& parameter) {
  FTUNE_RETURN_IF_ERROR(CheckLoadable(tensor, parameter));
  std::vector<std::byte> copied;
  FTUNE_ASSIGN_OR_RETURN(const SourceTensor slice,
                         SliceForRank(tensor, parameter, backend.computes(), copied));
  if (IsQuantizedWhole(parameter.dtype)) return LoadQuantized(backend, stream, slice, parameter);
  CopyIn(backend, stream, slice, parameter);
  return absl::OkStatus();
}

absl::Status FetchParameter(Backend& backend, Stream stream, const WeightSource& source,
                            const SourceTensor& tensor, const Parameter& parameter) {
  FTUNE_ASSIGN_OR_RETURN(const SourceTensor fetched, source.Fetch(tensor));
  const absl::Status status = LoadParameter(backend, stream, fetched, parameter);
  source.Release(tensor);
  return status;
}

ParameterPolicy MakeParameterPolicy(const StorageOptions& options, const WeightSource& source,
                                    AdapterFactories adapter) {
  return {.trainable = options.trainable,
          .dtype =
              [options, &source](const std::string& name, bool trainable) {
                if (trainable) return options.trainable_dtype;
                if (options.quantize && name.ends_with(kWeight) &&
                    options.quantized_modules.contains(name.substr(0, name.size() - kWeight.size()))) {
                  return *options.quantize;
                }
                if (options.frozen_dtype) return *options.frozen_dtype;
                const SourceTensor* tensor = source.Find(name);
                return tensor != nullptr && IsFloat(tensor->dtype) && tensor->dtype != DType::kF64
                           ? tensor->dtype
                           : DType::kF32;
              },
          .adapter = std::move(adapter)};
}

absl::StatusOr<ParameterFill> PrepareWeights(Backend& backend, Stream stream, const Model& model,
                                             const WeightSource& source) {
  std::set<std::string> used;
  const std::string file = source.tensors().empty() ? "" : source.tensors().front().file;
  for (const Parameter* parameter : model.parameters()) {
    if (IsAdapterParameter(parameter->name)) continue;
    const SourceTensor* tensor = source.Find(parameter->name);
    if (tensor == nullptr) {
      return DataError(
          {.file = file,
           .key = parameter->name,
           .message = "the tensor is missing",
           .hint = "the file does not match its config.json, or is incomplete: download it again"});
    }
    FTUNE_RETURN_IF_ERROR(CheckLoadable(*tensor, *parameter));
    used.insert(tensor->name);
  }
  // Other ranks' stages have the others.
  if (model.blocks().size() < model.total_blocks()) {
    for (const ParameterShape& p : ModelParameters(model.config())) used.insert(p.name);
  }
  for (const SourceTensor& tensor : source.tensors()) {
    if (used.contains(tensor.name)) continue;
    return DataError({.file = tensor.file,
                      .key = tensor.name,
                      .message = StrCat("unexpected tensor: a ", model.config().model_type,
                                        " model as config.json ", "describes it has none of that name"),
                      .hint = "the model has parts that ftune would ignore; it cannot be used as it is"});
  }
  return [&backend, stream, &source](const Parameter& parameter) -> absl::Status {
    if (IsAdapterParameter(parameter.name)) return absl::OkStatus();
    return FetchParameter(backend, stream, source, *source.Find(parameter.name), parameter);
  };
}

absl::Status ChangeValues(Model& model, const ParameterFill& fill) {
  for (size_t i = 0; i < model.blocks().size(); ++i) {
    const BlockChange change(model.hooks(), i);
    for (const Parameter& parameter : model.blocks()[i]->store().parameters()) {
      FTUNE_RETURN_IF_ERROR(fill(parameter));
    }
  }
  return absl::OkStatus();
}

absl::Status LoadWeights(Backend& backend, Stream stream, Model& model, const WeightSource& source) {
  FTUNE_ASSIGN_OR_RETURN(const ParameterFill fill, PrepareWeights(backend, stream, model, source));
  for (size_t i = 0; i < model.blocks().size(); ++i) {
    const BlockFill use(model.hooks(), i);
    for (const Parameter& parameter : model.blocks()[i]->store().parameters()) {
      FTUNE_RETURN_IF_ERROR(fill(parameter));
    }
  }
  return absl::OkStatus();
}

}  // namespace ftune
