// What the commands that use a finished model have in common: a device, the model, its tokenizer.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "data/tokenizer/tokenizer.h"
#include "engine/backend/backend.h"
#include "engine/format/loaded_model.h"

namespace ftune {

struct ModelSession {
  std::unique_ptr<Backend> backend;  // before the model, whose memory it counts
  LoadedModel loaded;
  std::unique_ptr<Tokenizer> tokenizer;
};

// `model` is a model's folder or a .gguf file. `options` as LoadModel has them.
absl::StatusOr<ModelSession> OpenSession(const std::filesystem::path& model, const LoadModelOptions& options);

// A CPU device with all cores.
std::unique_ptr<Backend> MakeCpuBackend(int threads);
int CpuCores();

}  // namespace ftune
