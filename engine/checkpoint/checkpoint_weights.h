// The values of a checkpoint as a model's weights: what was trained, under the names of parameters. Nothing
// of what the optimizer keeps is read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/format/weight_source.h"

namespace ftune {

// Tensors are put together from their slices when they are fetched. Used by one thread.
class CheckpointWeights final : public WeightSource {
 public:
  static absl::StatusOr<std::shared_ptr<const CheckpointWeights>> Open(const std::filesystem::path& folder);

  const Manifest& manifest() const { return reader_.manifest(); }

  const std::vector<SourceTensor>& tensors() const override { return tensors_; }
  absl::StatusOr<SourceTensor> Fetch(const SourceTensor& tensor) const override;
  void Release(const SourceTensor& tensor) const override { fetched_.erase(tensor.name); }

 private:
  CheckpointWeights(const std::filesystem::path& folder, CheckpointReader reader);
  std::string origin() const override { return file_; }

  mutable CheckpointReader reader_;
  std::string file_;  // the manifest's, for errors
  std::vector<SourceTensor> tensors_;
  mutable std::map<std::string, std::vector<std::byte>> fetched_;
};

}  // namespace ftune
