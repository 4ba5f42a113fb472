// LoRA adapters between memory and PEFT's folders.
#pragma once

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "engine/adapter/lora.h"
#include "engine/format/peft.h"
#include "engine/model/model.h"

namespace ftune {

LoraOptions ToLoraOptions(const PeftConfig& config);

// Fills the model's A and B. Every tensor of the adapter must find its place, and every A and B a tensor.
absl::Status LoadLoraWeights(Backend& backend, Stream stream, Model& model, const WeightSource& source);

absl::Status SaveLora(Backend& backend, Stream stream, Model& model, const LoraOptions& options,
                      const LoraTargets& targets, const std::string& base_model,
                      const std::filesystem::path& folder);

}  // namespace ftune
