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

// Architectures llama (Llama, Mistral, SmolLM) and qwen2. Tensors get their Hugging Face names; q and k of
// llama have interleaved_heads set, since llama.cpp's converter reorders their rows. A tensor of a type that
// DType does not have, a tensor that the architecture does not have, and a setting that ftune does not have
// are errors that name it.
absl::StatusOr<GgufModel> OpenGgufModel(const std::filesystem::path& path);

}  // namespace ftune
