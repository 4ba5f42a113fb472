#include "engine/format/quantized_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "base/block_quant.h"
#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 3> kNames = {
    {{"nf4", DType::kNF4}, {"fp4", DType::kFP4}, {"int8", DType::kInt8}}};
constexpr std::string_view kNone = "none";

// The tensor in f32, some rows at a time.
void Widen(Backend& backend, Stream stream, DType dtype, std::span<const std::byte> bytes, const Tensor& to) {
  if (dtype == DType::kF32) return backend.Upload(stream, bytes, to);
  constexpr int64_t kStagedValues = int64_t{1} << 20;
  const int64_t at_once = std::clamp<int64_t>(kStagedValues / std::max<int64_t>(1, to.cols()), 1, to.rows());
  const Tensor staged = backend.Allocate(dtype, at_once, to.cols(), Category::kBuffers);
  for (int64_t row = 0; row < to.rows(); row += at_once) {
    const int64_t rows = std::min(at_once, to.rows() - row);
    const Tensor part = staged.Rows(0, rows);
    backend.Upload(stream, bytes.subspan(BytesFor(dtype, row * to.cols()), BytesFor(dtype, rows * to.cols())),
                   part);
    backend.Convert(stream, part, to.Rows(row, rows));
  }
}

}  // namespace

absl::StatusOr<std::optional<DType>> ParseQuantization(std::string_view name) {
  if (name == kNone) return std::nullopt;
  std::vector<std::string_view> known = {kNone};
  for (const auto& [text, dtype] : kNames) {
    if (name == text) return dtype;
    known.push_back(text);
  }
  return absl::InvalidArgumentError(StrCat("one of ", StrJoin(known, ", ")));
}

std::string_view QuantizationName(const std::optional<DType>& dtype) {
  for (const auto& [text, named] : kNames) {
    if (dtype == named) return text;
  }
  return kNone;
}

absl::Status LoadQuantized(Backend& backend, Stream stream, const SourceTensor& tensor,
                           const Parameter& parameter) {
  std::vector<std::byte> reordered;
  std::span<const std::byte> bytes = tensor.bytes;
  if (tensor.interleaved_heads > 0 && backend.computes()) {
    reordered.resize(bytes.size());
    CopySourceTensor(tensor, reordered.data());
    bytes = reordered;
  }
  const Tensor& to = parameter.value;
  const Tensor wide = backend.Allocate(to.rows(), to.cols(), Category::kBuffers);
  Widen(backend, stream, tensor.dtype, bytes, wide);
  const Tensor scales =
      backend.Allocate(1, BlockQuantLayout(to.dtype(), to.size()).blocks, Category::kBuffers);
  backend.Quantize(stream, wide, to, scales);
  std::vector<float> host(scales.size());
  backend.Download(stream, scales, std::as_writable_bytes(std::span(host)));
  if (std::any_of(host.begin(), host.end(), [](float scale) { return std::isnan(scale); })) {
    return DataError({.file = tensor.file,
                      .key = tensor.name,
                      .message = StrCat("cannot be quantised to ", QuantizationName(to.dtype())),
                      .found = "a value that is not finite",
                      .expected = "finite weights",
                      .hint = "the file is broken: download it again"});
  }
  return absl::OkStatus();
}

QuantizedWeights FindQuantized(const Model& model, const WeightSource& source) {
  QuantizedWeights found;
  for (const Parameter* p : model.parameters()) {
    if (!IsQuantizedWhole(p->dtype)) continue;
    ++found.count;
    found.bytes += BytesFor(p->dtype, p->size());
    const SourceTensor* tensor = source.Find(p->name);
    if (tensor == nullptr) continue;
    found.source_bytes += BytesFor(tensor->dtype, p->size());
    if (IsQuantized(tensor->dtype)) ++found.twice;
  }
  return found;
}

}  // namespace ftune
