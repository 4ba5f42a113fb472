// A model's configuration without its weights.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "engine/model/config.h"

namespace ftune {

// Whether a path, which is there, is that of a config.json, under whatever name.
bool IsModelConfig(const std::filesystem::path& path);

// Of a model's folder or its config.json, which need no weights beside it, or of a .gguf file.
absl::StatusOr<ModelConfig> ReadModelConfig(const std::filesystem::path& model);

}  // namespace ftune
