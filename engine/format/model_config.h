// A model's configuration without its weights.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "engine/model/config.h"

namespace ftune {

// Of a model's folder or its config.json, which need no weights beside it, or of a .gguf file.
absl::StatusOr<ModelConfig> ReadModelConfig(const std::filesystem::path& model);

}  // namespace ftune
