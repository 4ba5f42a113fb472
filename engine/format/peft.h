// LoRA adapters as PEFT stores them: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/adapter/lora_options.h"
#include "engine/format/output_tensor.h"
#include "engine/format/weight_source.h"

namespace ftune {

struct PeftConfig {
  LoraOptions lora;
  bool fan_in_fan_out = false;  // written only: what is read follows from the modules, as in PEFT
  // The base is the text model of a multimodal one: PEFT's names have "model.language_model." where a text
  // model's, and those here, have "model.".
  bool of_multimodal = false;
  std::string base_model;     // name or path; may be empty
  std::string base_revision;  // of a model of the hub; may be empty
  // Fields that change what the adapter computes, beside those above, with their values as JSON.
  std::vector<std::pair<std::string, std::string>> other_features;
};

// Reads FOLDER/adapter_config.json. Features that ftune does not have are returned, not refused.
absl::StatusOr<PeftConfig> ReadPeftConfig(const std::filesystem::path& folder);
// The text of one, read and written. Errors name `file`.
absl::StatusOr<PeftConfig> ParsePeftConfig(std::string_view text, const std::string& file);
std::string WritePeftConfig(const PeftConfig& config);
// An error that names the first feature that ftune does not have. `file` is named in it.
absl::Status CheckSupported(const PeftConfig& config, const std::string& file);

struct PeftAdapter {
  PeftConfig config;
  // FOLDER/adapter_model.safetensors, without PEFT's "base_model.model." before the names:
  // "model.layers.0.self_attn.q_proj.lora_A.weight".
  std::unique_ptr<WeightSource> weights;
};
// An adapter that ftune supports.
absl::StatusOr<PeftAdapter> OpenPeftAdapter(const std::filesystem::path& folder);

// Writes both files; names of tensors as in PeftAdapter::weights. The folder is made if need be.
absl::Status WritePeftAdapter(const std::filesystem::path& folder, const PeftConfig& config,
                              std::span<const OutputTensor> tensors);

}  // namespace ftune
