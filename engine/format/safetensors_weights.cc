#include "engine/format/safetensors_weights.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/folder.h"
#include "base/json_file.h"
#include "base/strings.h"
#include "engine/format/file_names.h"

namespace ftune {
namespace {

using nlohmann::json;

// Tensor name to shard file name.
absl::StatusOr<std::map<std::string, std::string>> ReadWeightMap(const std::filesystem::path& index) {
  const std::string file = index.string();
  FTUNE_ASSIGN_OR_RETURN(const json root, ReadJsonFile(index));
  const auto map = root.is_object() ? root.find("weight_map") : root.end();
  if (map == root.end() || !map->is_object() || map->empty()) {
    return DataError({.file = file,
                      .key = "weight_map",
                      .message = "missing, empty or not an object",
                      .expected = "tensor names with the shard of each"});
  }
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, shard] : map->items()) {
    const bool plain = shard.is_string() && !shard.get<std::string>().empty() &&
                       shard.get<std::string>().find('/') == std::string::npos;
    if (!plain) {
      return DataError({.file = file,
                        .key = StrCat("weight_map.", tensor),
                        .found = Excerpt(shard),
                        .expected = "the name of a file in the same folder"});
    }
    shards[tensor] = shard.get<std::string>();
  }
  return shards;
}

absl::Status NoWeights(const std::filesystem::path& folder) {
  const bool pickle = Exists(folder / "pytorch_model.bin") || Exists(folder / "pytorch_model.bin.index.json");
  return DataError(
      {.file = folder.string(),
       .message = "the folder has no weights",
       .found = pickle ? "pytorch_model.bin" : "",
       .expected = StrCat(kWeightsFile, " or ", kWeightsIndexFile),
       .hint = pickle ? "convert it with transformers: save_pretrained writes safetensors" : ""});
}

}  // namespace

void SafetensorsWeights::Add(SafetensorsFile file) {
  for (const SafetensorsEntry& entry : file.entries()) {
    tensors_.push_back({.name = entry.name,
                        .dtype = entry.dtype.value_or(DType::kU8),
                        .shape = entry.shape,
                        .bytes = entry.bytes,
                        .file = file.path().string(),
                        .unsupported_type = entry.dtype ? "" : entry.dtype_name});
  }
  files_.push_back(std::move(file));
}

absl::Status SafetensorsWeights::Sort() {
  std::sort(tensors_.begin(), tensors_.end(),
            [](const SourceTensor& a, const SourceTensor& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(tensors_.begin(), tensors_.end(),
                         [](const SourceTensor& a, const SourceTensor& b) { return a.name == b.name; });
  if (twice == tensors_.end()) return absl::OkStatus();
  return DataError({.file = twice->file,
                    .key = twice->name,
                    .message = StrCat("the tensor also stands in ", std::next(twice)->file)});
}

void SafetensorsWeights::Drop(std::string_view name) {
  std::erase_if(tensors_, [&](const SourceTensor& tensor) { return tensor.name == name; });
}

absl::Status SafetensorsWeights::Rename(const std::function<std::string(const std::string&)>& name_of) {
  for (SourceTensor& tensor : tensors_) tensor.name = name_of(tensor.name);
  Drop("");
  return Sort();
}

absl::StatusOr<std::unique_ptr<SafetensorsWeights>> SafetensorsWeights::OpenFile(
    const std::filesystem::path& path) {
  std::unique_ptr<SafetensorsWeights> weights(new SafetensorsWeights(path));
  FTUNE_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(path));
  weights->Add(std::move(file));
  FTUNE_RETURN_IF_ERROR(weights->Sort());
  return weights;
}

absl::StatusOr<std::unique_ptr<SafetensorsWeights>> SafetensorsWeights::OpenFolder(
    const std::filesystem::path& folder) {
  if (Exists(folder / kWeightsFile)) return OpenFile(folder / kWeightsFile);
  if (Exists(folder / kWeightsIndexFile)) return OpenIndex(folder / kWeightsIndexFile);
  return NoWeights(folder);
}

absl::StatusOr<std::unique_ptr<SafetensorsWeights>> SafetensorsWeights::OpenIndex(
    const std::filesystem::path& index) {
  using Map = std::map<std::string, std::string>;
  FTUNE_ASSIGN_OR_RETURN(const Map weight_map, ReadWeightMap(index));
  std::unique_ptr<SafetensorsWeights> weights(new SafetensorsWeights(index));
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : weight_map) shards.insert(shard);
  for (const std::string& shard : shards) {
    const std::filesystem::path path = index.parent_path() / shard;
    if (!Exists(path)) {
      return DataError(
          {.file = path.string(),
           .message = StrCat("the shard is missing, but ", index.filename().string(), " names it"),
           .hint = "copy or download it"});
    }
    FTUNE_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(path));
    weights->Add(std::move(file));
  }
  FTUNE_RETURN_IF_ERROR(weights->Sort());
  for (const auto& [tensor, shard] : weight_map) {
    const std::string expected = (index.parent_path() / shard).string();
    const SourceTensor* found = weights->Find(tensor);
    if (found == nullptr || found->file != expected) {
      return DataError({.file = index.string(),
                        .key = tensor,
                        .message = "the tensor is not in the shard that the index names",
                        .found = found == nullptr ? "it in no shard" : StrCat("it in ", found->file),
                        .expected = expected});
    }
  }
  return weights;
}

}  // namespace ftune
