#include "engine/format/weight_source.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace ftune {

void CopySourceTensor(const SourceTensor& tensor, std::byte* destination) {
  if (tensor.bytes.empty()) return;
  if (tensor.interleaved_heads == 0) {
    std::memcpy(destination, tensor.bytes.data(), tensor.bytes.size());
    return;
  }
  // Row 2j + half of a head in the file is row half * pairs + j in Hugging Face's order.
  const int64_t rows = tensor.shape[0];
  const int64_t row_bytes = static_cast<int64_t>(tensor.bytes.size()) / rows;
  const int64_t pairs = rows / tensor.interleaved_heads / 2;
  const std::byte* source = tensor.bytes.data();
  for (int64_t head = 0; head < tensor.interleaved_heads; ++head) {
    std::byte* target = destination + head * 2 * pairs * row_bytes;
    for (int64_t j = 0; j < pairs; ++j) {
      for (int64_t half = 0; half < 2; ++half) {
        std::memcpy(target + (half * pairs + j) * row_bytes, source, row_bytes);
        source += row_bytes;
      }
    }
  }
}

const SourceTensor* WeightSource::Find(std::string_view name) const {
  const auto found = std::lower_bound(tensors().begin(), tensors().end(), name,
                                      [](const SourceTensor& a, std::string_view b) { return a.name < b; });
  return found != tensors().end() && found->name == name ? &*found : nullptr;
}

absl::StatusOr<const SourceTensor*> WeightSource::Get(std::string_view name) const {
  const SourceTensor* tensor = Find(name);
  if (tensor == nullptr) {
    return DataError(
        {.file = origin(), .key = std::string(name), .message = "the model's files have no such tensor"});
  }
  if (!tensor->unsupported_type.empty()) {
    return DataError({.file = tensor->file,
                      .key = tensor->name,
                      .message = "the tensor's type is not supported",
                      .found = tensor->unsupported_type,
                      .expected = "F32, F16 or BF16",
                      .hint = "convert the model to one of these first"});
  }
  return tensor;
}

}  // namespace ftune
