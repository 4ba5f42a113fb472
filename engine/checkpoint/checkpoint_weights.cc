#include "engine/checkpoint/checkpoint_weights.h"

#include <utility>

#include "base/error.h"

namespace ftune {

absl::StatusOr<std::shared_ptr<const CheckpointWeights>> CheckpointWeights::Open(
    const std::filesystem::path& folder) {
  FTUNE_ASSIGN_OR_RETURN(CheckpointReader reader, CheckpointReader::Open(folder));
  return std::shared_ptr<const CheckpointWeights>(new CheckpointWeights(folder, std::move(reader)));
}

CheckpointWeights::CheckpointWeights(const std::filesystem::path& folder, CheckpointReader reader)
    : reader_(std::move(reader)), file_((folder / kManifestName).string()) {
  for (const auto& [name, tensor] : manifest().values) {
    tensors_.push_back({.name = name, .dtype = tensor.dtype, .shape = tensor.shape, .file = file_});
  }
}

absl::StatusOr<SourceTensor> CheckpointWeights::Fetch(const SourceTensor& tensor) const {
  const CheckpointTensor& entry = manifest().values.at(tensor.name);
  std::vector<std::byte>& bytes = fetched_[tensor.name];
  bytes.resize(static_cast<size_t>(entry.bytes()));
  FTUNE_RETURN_IF_ERROR(reader_.Read(entry, WholeOf(entry.shape), bytes.data()));
  SourceTensor fetched = tensor;
  fetched.bytes = bytes;
  return fetched;
}

}  // namespace ftune
