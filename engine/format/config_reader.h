// config.json of a Hugging Face model as a ModelConfig.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/config.h"

namespace ftune {

struct HfConfig {
  ModelConfig model;
  std::string text;        // of the file, or of the part that describes the text model
  bool text_only = false;  // it is such a part, of a multimodal model
};

// Both dialects: transformers 4's (rope_theta, rope_scaling, torch_dtype) and 5's (rope_parameters, dtype).
// Absent keys get transformers' defaults, except for the sizes that no model can do without. A family,
// activation, rope type or field that would change the mathematics in a way that ftune does not have is an
// error that names it. The eos ids of a generation_config.json in the same folder are added. Of Gemma 3's
// multimodal models the text model is described, as one of its own.
absl::StatusOr<HfConfig> ReadHfConfig(const std::filesystem::path& config_json);

// A model's own config from parsed text; `file` is named in errors.
absl::StatusOr<ModelConfig> ParseHfConfig(const nlohmann::json& config, const std::string& file);

// Relations that every ModelConfig must satisfy, wherever it comes from: sizes positive and below 2^31, heads
// that divide, an even head size. `file` is named in errors.
absl::Status CheckModelConfig(const ModelConfig& config, const std::string& file);

}  // namespace ftune
