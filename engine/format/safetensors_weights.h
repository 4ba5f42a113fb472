// Weights in safetensors files as a WeightSource.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mapped_file.h"
#include "base/safetensors.h"
#include "engine/format/weight_source.h"

namespace ftune {

class SafetensorsWeights : public WeightSource {
 public:
  // One file.
  static absl::StatusOr<std::unique_ptr<SafetensorsWeights>> OpenFile(const std::filesystem::path& path);
  // model.safetensors, or else the shards of model.safetensors.index.json. Index and shards must agree: a
  // missing shard, a tensor that is not in the shard that the index names, or that stands in two, is an error
  // that names it.
  static absl::StatusOr<std::unique_ptr<SafetensorsWeights>> OpenFolder(const std::filesystem::path& folder);

  const std::vector<SourceTensor>& tensors() const override { return tensors_; }
  void Release(const SourceTensor& tensor) const override { ForgetPages(tensor.bytes); }
  // Removes a tensor that the model does not use.
  void Drop(std::string_view name);
  // Gives each tensor the name that `name_of` has for it; an empty one removes it. An error if two would have
  // one name.
  absl::Status Rename(const std::function<std::string(const std::string&)>& name_of);

 private:
  explicit SafetensorsWeights(std::filesystem::path path) : path_(std::move(path)) {}
  static absl::StatusOr<std::unique_ptr<SafetensorsWeights>> OpenIndex(const std::filesystem::path& index);
  // Takes over `file` and adds its tensors, unsorted.
  void Add(SafetensorsFile file);
  // An error if two have one name.
  absl::Status Sort();
  std::string origin() const override { return path_.string(); }

  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::vector<SourceTensor> tensors_;
};

}  // namespace ftune
