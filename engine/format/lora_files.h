// LoRA adapters between memory and PEFT's folders.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/adapter/lora.h"
#include "engine/format/hf_model.h"
#include "engine/format/load_weights.h"
#include "engine/format/peft.h"
#include "engine/model/model.h"

namespace ftune {

// Whether the adapter trains an end of a tied model, embedding or head, in full without tying the other to
// it: as LoraOptions::tie_saved says, and as PEFT can do it (for embed_tokens, but not for GPT-2's wte).
bool UntiesHead(const LoraOptions& options, const ModelConfig& config);
// Whether PEFT would give embedding and tied head one A and B together.
bool SharesTiedAdapter(const LoraOptions& options, const LoraTargets& targets, const ModelConfig& config);

// What fills the adapter's parameters, and those of the base in modules_to_save, of `model`, whose stores
// need not have memory yet. Every tensor of the adapter must find its place, and each of these parameters a
// tensor; otherwise the error names the base that the adapter says it was made for. The backend outlives the
// result.
absl::StatusOr<ParameterFill> PrepareLora(Backend& backend, Stream stream, const Model& model,
                                          const LoraTargets& targets,
                                          std::shared_ptr<const PeftAdapter> adapter);

// Merges an adapter into the base, in f32, without a model that has its parameters. `model` is in f32 where
// the adapter changes it.
absl::Status MergeLoraFolder(Backend& backend, Stream stream, Model& model, const LoraTargets& targets,
                             std::shared_ptr<const PeftAdapter> adapter);

// `base` is what the model was opened from; `tensors` are its AdapterTensors.
absl::Status SaveLora(const Model& model, const LoraOptions& options, const LoraTargets& targets,
                      const ModelFiles& base, std::span<const OutputTensor> tensors,
                      const std::filesystem::path& folder);

}  // namespace ftune
