// A GGUF model as ModelConfig and WeightSource.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/gguf.h"
#include "engine/format/weight_source.h"
#include "engine/model/config.h"

namespace ftune {

struct GgufModel {
  ModelConfig config;
  std::unique_ptr<WeightSource> weights;  // owns the mapping
};

// The architectures that the table of families names ("llama" is Llama, Mistral and SmolLM). Tensors get
// their Hugging Face names; what llama.cpp's converter did to some (rows of q and k reordered, Gemma's norms
// with the 1 that is added to them) is told by interleaved_heads and `added`. A tensor of a type that DType
// does not have, a tensor that the architecture does not have, and a setting that ftune does not have are
// errors that name it.
absl::StatusOr<GgufModel> OpenGgufModel(const std::filesystem::path& path);

}  // namespace ftune
