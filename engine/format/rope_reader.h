// Rotary position settings from config.json, in both dialects.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/format/families.h"
#include "engine/model/config.h"

namespace ftune {

// What rope parameters are read against.
struct RopeDefaults {
  double theta = 10000.0;
  int64_t max_position = 0;
  int64_t rotary_dim = 0;
  // An original_max_position_embeddings beside the parameters, which wins (standardize_rope_params).
  std::optional<int64_t> original_max_position;
};

// One set of parameters: {"rope_type" (or, older, "type"), "factor", …}. `where` is their key. An unsupported
// type or a bad number is an error that names the key.
absl::StatusOr<RopeConfig> ReadRopeParameters(const nlohmann::json& parameters, const RopeDefaults& defaults,
                                              const std::string& where, const std::string& file);

// Sets rope, local_rope and rotary_dim: from transformers 5's rope_parameters (for each type of layer where
// the family has local ones), or transformers 4's rope_theta, rope_scaling and rope_local_base_freq.
absl::Status ReadRopes(const nlohmann::json& config, const Family& family, const std::string& file,
                       ModelConfig& model);

}  // namespace ftune
