// Opens a model: a Hugging Face folder or a GGUF file.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/format/weight_source.h"
#include "engine/model/config.h"

namespace ftune {

struct ModelFiles {
  ModelConfig config;
  std::unique_ptr<WeightSource> weights;  // Hugging Face names
  std::filesystem::path path;             // as given to OpenModel
  // What an adapter that is saved calls its base; empty: path. Of a model of the hub its id and commit.
  std::string name;
  std::string revision;
  bool is_gguf = false;
  std::string config_json;  // the text of config.json; empty for GGUF
  // Where the tokenizer's files are, if not with the model: it has tokens that the model's has not.
  std::filesystem::path tokenizer_folder;
  bool text_only = false;  // the text part of a multimodal model; config_json is then that part's
};

// The folder or file that its tokenizer is read from.
inline const std::filesystem::path& TokenizerOf(const ModelFiles& files) {
  return files.tokenizer_folder.empty() ? files.path : files.tokenizer_folder;
}

// Weights stay mapped, nothing is copied. Buffers that old files hold beside the weights
// (rotary_emb.inv_freq, GPT-2's masks) are left out, and so is an lm_head.weight that repeats the embedding
// of a tied model; one that differs is an error. Whether each tensor that the model needs is there, in the
// right shape, is for the caller, who knows what it needs.
absl::StatusOr<ModelFiles> OpenModel(const std::filesystem::path& path);

}  // namespace ftune
