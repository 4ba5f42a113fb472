#include "engine/format/hf_model.h"

#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/folder.h"
#include "base/json_file.h"
#include "base/strings.h"
#include "engine/format/config_reader.h"
#include "engine/format/file_names.h"
#include "engine/format/gguf_model.h"
#include "engine/format/safetensors_weights.h"
#include "engine/format/tensor_names.h"

namespace ftune {
namespace {

absl::Status NoConfig(const std::filesystem::path& folder) {
  if (Exists(folder / "adapter_config.json")) {
    return DataError({.file = folder.string(),
                      .message = "this is an adapter, not a model",
                      .hint = "give the base model, and the adapter beside it"});
  }
  FTUNE_ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> paths, ListFolder(folder));
  for (const std::filesystem::path& path : paths) {
    if (path.extension() == ".gguf") {
      return DataError({.file = folder.string(),
                        .message = StrCat("the folder has no ", kModelConfigFile),
                        .hint = StrCat("to use the GGUF file in it, give ", path.string())});
    }
  }
  return DataError({.file = folder.string(),
                    .message = StrCat("the folder has no ", kModelConfigFile),
                    .expected = "a Hugging Face model or a .gguf file"});
}

absl::Status DropTiedHead(const ModuleNames& names, SafetensorsWeights& weights) {
  const std::string embedding_name = StrCat(names.embedding, ".weight");
  const std::string head_name = StrCat(names.head, ".weight");
  const SourceTensor* head = weights.Find(head_name);
  const SourceTensor* embedding = weights.Find(embedding_name);
  if (head == nullptr || embedding == nullptr) return absl::OkStatus();
  const bool same = head->dtype == embedding->dtype && head->shape == embedding->shape &&
                    head->bytes.size() == embedding->bytes.size() &&
                    std::memcmp(head->bytes.data(), embedding->bytes.data(), head->bytes.size()) == 0;
  if (!same) {
    return DataError({.file = head->file,
                      .key = head_name,
                      .message = StrCat("config.json says tie_word_embeddings, but the tensor differs from ",
                                        embedding_name),
                      .hint = "set tie_word_embeddings to false, or remove the tensor"});
  }
  weights.Drop(head_name);
  return absl::OkStatus();
}

absl::StatusOr<ModelFiles> OpenFolder(const std::filesystem::path& folder) {
  const std::filesystem::path config = folder / kModelConfigFile;
  if (!Exists(config)) return NoConfig(folder);
  ModelFiles files;
  files.path = folder;
  FTUNE_ASSIGN_OR_RETURN(HfConfig read, ReadHfConfig(config));
  files.config = std::move(read.model);
  files.config_json = std::move(read.text);
  files.text_only = read.text_only;
  FTUNE_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsWeights> weights, SafetensorsWeights::OpenFolder(folder));
  const Family& family = *FindFamily(files.config.model_type);
  FTUNE_RETURN_IF_ERROR(weights->Rename(
      [&](const std::string& name) { return ModelTensorName(name, family, files.text_only); }));
  if (files.config.tied_head) {
    FTUNE_RETURN_IF_ERROR(DropTiedHead(files.config.architecture->names, *weights));
  }
  files.weights = std::move(weights);
  return files;
}

absl::StatusOr<ModelFiles> OpenGguf(const std::filesystem::path& path) {
  FTUNE_ASSIGN_OR_RETURN(GgufModel model, OpenGgufModel(path));
  ModelFiles files;
  files.path = path;
  files.is_gguf = true;
  files.config = std::move(model.config);
  files.weights = std::move(model.weights);
  return files;
}

}  // namespace

absl::StatusOr<ModelFiles> OpenModel(const std::filesystem::path& path) {
  if (!Exists(path)) {
    return DataError({.file = path.string(),
                      .message = "no such model",
                      .expected = "a folder with config.json and safetensors, or a .gguf file"});
  }
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return OpenFolder(path);
  if (path.extension() == ".gguf") return OpenGguf(path);
  return DataError({.file = path.string(),
                    .message = "not a model",
                    .found = "a file",
                    .expected = "a folder with config.json and safetensors, or a .gguf file"});
}

}  // namespace ftune
