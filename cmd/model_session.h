// What the commands that use a finished model have in common: a device, the model, its tokenizer.
#pragma once

#include <CLI/CLI.hpp>
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

// `model` is a model's folder or a .gguf file. `options` as LoadModel has them, but for `quantize`: that is
// what --quantize says, or, where it says nothing, how the adapters' base was quantised.
absl::StatusOr<ModelSession> OpenSession(const std::filesystem::path& model, LoadModelOptions options,
                                         const std::string& quantize);

// Declares --quantize.
void AddQuantizeOption(CLI::App& command, std::string& quantize);

// A CPU device with all cores.
std::unique_ptr<Backend> MakeCpuBackend(int threads);
int CpuCores();

}  // namespace ftune
