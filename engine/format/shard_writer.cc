#include "engine/format/shard_writer.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/io_error.h"
#include "base/safetensors.h"
#include "base/strings.h"
#include "base/tensor_bytes.h"
#include "engine/format/file_names.h"

namespace ftune {
namespace {

struct Shard {
  std::vector<const OutputTensor*> tensors;
  int64_t bytes = 0;
};

absl::StatusOr<int64_t> BytesOf(const OutputTensor& tensor, const std::filesystem::path& path) {
  const auto bytes = CheckedBytes(tensor.dtype, tensor.shape);
  if (bytes.ok()) return bytes;
  return DataError(
      {.file = path.string(), .key = tensor.name, .message = std::string(bytes.status().message())});
}

absl::Status WriteFile(const std::filesystem::path& path, std::vector<const OutputTensor*> tensors) {
  // Largest elements first keeps each tensor aligned to its element.
  std::stable_sort(tensors.begin(), tensors.end(), [](const OutputTensor* a, const OutputTensor* b) {
    return BlockBytes(a->dtype) > BlockBytes(b->dtype);
  });
  std::vector<SafetensorsSpec> specs;
  for (const OutputTensor* tensor : tensors) specs.push_back({tensor->name, tensor->dtype, tensor->shape});
  FTUNE_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create(path, std::move(specs)));
  std::vector<std::byte> buffer;
  for (const OutputTensor* tensor : tensors) {
    FTUNE_ASSIGN_OR_RETURN(const int64_t bytes, BytesOf(*tensor, path));
    buffer.resize(bytes);
    FTUNE_RETURN_IF_ERROR(tensor->fill(buffer.data()));
    FTUNE_RETURN_IF_ERROR(writer.Append(buffer));
  }
  return writer.Finish();
}

std::string ShardName(size_t index, size_t count) {
  char name[64];
  std::snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name;
}

bool IsWeightFile(const std::string& name) {
  if (name == kWeightsFile || name == kWeightsIndexFile) return true;
  constexpr std::string_view kPattern = "model-00000-of-00000.safetensors";
  if (name.size() != kPattern.size()) return false;
  return std::equal(name.begin(), name.end(), kPattern.begin(), [](char c, char pattern) {
    return pattern == '0' ? c >= '0' && c <= '9' : c == pattern;
  });
}

absl::Status RemoveStale(const std::filesystem::path& folder, const std::set<std::string>& written) {
  FTUNE_ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> paths, ListFolder(folder));
  for (const std::filesystem::path& path : paths) {
    const std::string name = path.filename().string();
    if (!IsWeightFile(name) || written.contains(name)) continue;
    std::error_code error;
    std::filesystem::remove(path, error);
    if (error) return IoError(path, "remove", error.value());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteSafetensors(const std::filesystem::path& path, std::span<const OutputTensor> tensors) {
  std::vector<const OutputTensor*> all;
  for (const OutputTensor& tensor : tensors) all.push_back(&tensor);
  return WriteFile(path, std::move(all));
}

absl::Status WriteShards(const std::filesystem::path& folder, std::span<const OutputTensor> tensors,
                         int64_t max_shard_bytes) {
  std::vector<Shard> shards(1);
  int64_t total = 0;
  std::set<std::string_view> names;
  for (const OutputTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return absl::InternalError(StrCat(folder.string(), ": tensor ", tensor.name, " is given twice"));
    }
    FTUNE_ASSIGN_OR_RETURN(const int64_t bytes, BytesOf(tensor, folder));
    if (!shards.back().tensors.empty() && bytes > max_shard_bytes - shards.back().bytes)
      shards.emplace_back();
    shards.back().tensors.push_back(&tensor);
    shards.back().bytes += bytes;
    total += bytes;
  }
  if (shards.size() == 1) {
    FTUNE_RETURN_IF_ERROR(WriteFile(folder / kWeightsFile, std::move(shards[0].tensors)));
    return RemoveStale(folder, {kWeightsFile});
  }
  nlohmann::ordered_json weight_map = nlohmann::ordered_json::object();
  std::set<std::string> written = {kWeightsIndexFile};
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = ShardName(i, shards.size());
    for (const OutputTensor* tensor : shards[i].tensors) weight_map[tensor->name] = name;
    FTUNE_RETURN_IF_ERROR(WriteFile(folder / name, std::move(shards[i].tensors)));
    written.insert(name);
  }
  const nlohmann::ordered_json index = {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
  FTUNE_RETURN_IF_ERROR(WriteFileAtomic(folder / kWeightsIndexFile, index.dump(2) + "\n"));
  return RemoveStale(folder, written);
}

}  // namespace ftune
