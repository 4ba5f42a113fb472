#include "engine/format/hf_model.h"

#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/folder.h"
#include "base/json_file.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "engine/format/config_reader.h"
#include "engine/format/gguf_model.h"
#include "engine/format/safetensors_weights.h"

namespace ftune {
namespace {

constexpr char kConfigFile[] = "config.json";
constexpr char kHead[] = "lm_head.weight";
constexpr char kEmbedding[] = "model.embed_tokens.weight";

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
                        .message = StrCat("the folder has no ", kConfigFile),
                        .hint = StrCat("to use the GGUF file in it, give ", path.string())});
    }
  }
  return DataError({.file = folder.string(),
                    .message = StrCat("the folder has no ", kConfigFile),
                    .expected = "a Hugging Face model or a .gguf file"});
}

// Buffers that transformers computes and ignores in files.
void DropBuffers(SafetensorsWeights& weights) {
  std::vector<std::string> names;
  for (const SourceTensor& tensor : weights.tensors()) {
    if (std::string_view(tensor.name).ends_with("rotary_emb.inv_freq")) names.push_back(tensor.name);
  }
  for (const std::string& name : names) weights.Drop(name);
}

absl::Status DropTiedHead(SafetensorsWeights& weights) {
  const SourceTensor* head = weights.Find(kHead);
  const SourceTensor* embedding = weights.Find(kEmbedding);
  if (head == nullptr || embedding == nullptr) return absl::OkStatus();
  const bool same = head->dtype == embedding->dtype && head->shape == embedding->shape &&
                    head->bytes.size() == embedding->bytes.size() &&
                    std::memcmp(head->bytes.data(), embedding->bytes.data(), head->bytes.size()) == 0;
  if (!same) {
    return DataError(
        {.file = head->file,
         .key = kHead,
         .message = StrCat("config.json says tie_word_embeddings, but the tensor differs from ", kEmbedding),
         .hint = "set tie_word_embeddings to false, or remove the tensor"});
  }
  weights.Drop(kHead);
  return absl::OkStatus();
}

absl::StatusOr<ModelFiles> OpenFolder(const std::filesystem::path& folder) {
  const std::filesystem::path config = folder / kConfigFile;
  if (!Exists(config)) return NoConfig(folder);
  ModelFiles files;
  files.path = folder;
  FTUNE_ASSIGN_OR_RETURN(files.config, ReadHfConfig(config));
  FTUNE_ASSIGN_OR_RETURN(const MappedFile text, MappedFile::Open(config));
  files.config_json = std::string(text.text());
  FTUNE_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsWeights> weights, SafetensorsWeights::OpenFolder(folder));
  DropBuffers(*weights);
  if (files.config.tied_head) FTUNE_RETURN_IF_ERROR(DropTiedHead(*weights));
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
