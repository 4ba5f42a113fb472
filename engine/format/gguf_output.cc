#include "engine/format/gguf_output.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/convert.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/ggml_quantize.h"
#include "base/gguf_writer.h"
#include "base/strings.h"
#include "engine/format/gguf_metadata.h"
#include "engine/format/gguf_names.h"
#include "engine/format/gguf_rope.h"

namespace ftune {
namespace {

struct PlannedTensor {
  const OutputTensor* source = nullptr;  // nullptr: the rotary factors
  GgufTensorSpec spec;
  int64_t interleaved_heads = 0;
  float added = 0.0f;  // to each value
};

absl::StatusOr<std::vector<PlannedTensor>> PlanTensors(const ModelConfig& config, const Family& family,
                                                       std::span<const OutputTensor> tensors, DType dtype,
                                                       const std::string& file) {
  std::vector<PlannedTensor> planned;
  if (config.rope.kind == RopeKind::kLlama3) {
    planned.push_back({.spec = {kGgufRopeFactors, DType::kF32, {config.head_dim / 2}}});
  }
  for (const OutputTensor& tensor : tensors) {
    const std::string name = GgufTensorName(tensor.name, *config.architecture);
    const auto role = ParseGgufName(name, *config.architecture);
    if (!role) {
      return DataError({.file = file,
                        .key = tensor.name,
                        .message = StrCat("GGUF's ", family.gguf_architecture, " has no such tensor")});
    }
    if (config.tied_head && role->part == "output") continue;
    PlannedTensor planned_tensor = {.source = &tensor,
                                    .spec = {name, GgufOutputType(dtype, tensor.shape), tensor.shape}};
    planned_tensor.interleaved_heads = InterleavedHeads(*role, config, family);
    // As llama.cpp's converter stores Gemma's norms: with the 1 that is added to them.
    if (config.architecture->norm_unit_offset && role->part.ends_with("norm")) planned_tensor.added = 1.0f;
    planned.push_back(std::move(planned_tensor));
  }
  return planned;
}

// Row half * pairs + j of a head becomes row 2j + half: what CopySourceTensor undoes.
void InterleaveRows(int64_t heads, int64_t rows, const std::vector<float>& from, std::vector<float>& to) {
  to.resize(from.size());
  const int64_t cols = static_cast<int64_t>(from.size()) / rows;
  const int64_t pairs = rows / heads / 2;
  float* target = to.data();
  for (int64_t head = 0; head < heads; ++head) {
    const float* source = from.data() + head * 2 * pairs * cols;
    for (int64_t j = 0; j < pairs; ++j) {
      for (int64_t half = 0; half < 2; ++half, target += cols) {
        std::memcpy(target, source + (half * pairs + j) * cols, cols * sizeof(float));
      }
    }
  }
}

absl::Status Encode(const GgufTensorSpec& spec, const std::vector<float>& values,
                    std::vector<std::byte>& bytes, const std::string& file) {
  const auto count = static_cast<int64_t>(values.size());
  bytes.resize(BytesFor(spec.dtype, count));
  if (IsQuantizationTarget(spec.dtype)) {
    if (Quantize(spec.dtype, values.data(), count, bytes.data())) return absl::OkStatus();
    return DataError({.file = file,
                      .key = spec.name,
                      .message = StrCat("a value is not finite or too large for ", Name(spec.dtype)),
                      .hint = "export with --dtype bf16 or f32"});
  }
  ConvertFromF32(spec.dtype, values.data(), count, bytes.data());
  return absl::OkStatus();
}

absl::Status WriteTensor(const PlannedTensor& tensor, const ModelConfig& config, const std::string& file,
                         GgufWriter& writer) {
  std::vector<float> values;
  if (tensor.source == nullptr) {
    values = Llama3Divisors(config.rope, config.head_dim);
  } else {
    int64_t count = 1;
    for (const int64_t dim : tensor.source->shape) count *= dim;
    values.resize(count);
    FTUNE_RETURN_IF_ERROR(tensor.source->fill(reinterpret_cast<std::byte*>(values.data())));
    for (float& value : values) value += tensor.added;
    if (tensor.interleaved_heads > 0) {
      std::vector<float> rows;
      InterleaveRows(tensor.interleaved_heads, tensor.source->shape[0], values, rows);
      values = std::move(rows);
    }
  }
  std::vector<std::byte> bytes;
  FTUNE_RETURN_IF_ERROR(Encode(tensor.spec, values, bytes, file));
  return writer.Append(bytes);
}

absl::Status CheckPath(const ModelFiles& base, const std::filesystem::path& path) {
  if (path.extension() != ".gguf") {
    return UsageError({.file = path.string(),
                       .message = "the name of a GGUF file ends in .gguf",
                       .hint = StrCat("write to ", path.string(), ".gguf")});
  }
  std::error_code error;
  if (!std::filesystem::equivalent(base.path, path, error)) return absl::OkStatus();
  return UsageError({.file = path.string(),
                     .message = "the model cannot be written over the one it was made from",
                     .hint = "choose another name"});
}

}  // namespace

bool IsGgufOutputType(DType dtype) { return IsConversionTarget(dtype) || IsQuantizationTarget(dtype); }

DType GgufOutputType(DType wanted, std::span<const int64_t> shape) {
  if (shape.size() < 2) return DType::kF32;
  for (const DType dtype : {wanted, DType::kQ8_0}) {
    if (shape.back() % BlockSize(dtype) == 0) return dtype;
  }
  return DType::kF16;
}

absl::Status WriteGgufModel(const ModelFiles& base, const std::filesystem::path& path,
                            std::span<const OutputTensor> tensors, DType dtype) {
  const std::string file = path.string();
  FTUNE_RETURN_IF_ERROR(CheckPath(base, path));
  FTUNE_ASSIGN_OR_RETURN(const Family* family, CheckGgufFamily(base.config, base.path.string()));
  GgufMetadata metadata;
  FTUNE_RETURN_IF_ERROR(AddGgufMetadata(base, *family, dtype, metadata));
  FTUNE_ASSIGN_OR_RETURN(const std::vector<PlannedTensor> planned,
                         PlanTensors(base.config, *family, tensors, dtype, file));
  std::vector<GgufTensorSpec> specs;
  for (const PlannedTensor& tensor : planned) specs.push_back(tensor.spec);
  if (path.has_parent_path()) FTUNE_RETURN_IF_ERROR(MakeFolder(path.parent_path()));
  FTUNE_ASSIGN_OR_RETURN(GgufWriter writer, GgufWriter::Create(path, metadata, specs));
  for (const PlannedTensor& tensor : planned) {
    FTUNE_RETURN_IF_ERROR(WriteTensor(tensor, base.config, file, writer));
  }
  return writer.Finish();
}

}  // namespace ftune
