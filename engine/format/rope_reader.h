// Rotary position settings from config.json, in both dialects.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/config.h"

namespace ftune {

// transformers 5's rope_parameters, or transformers 4's rope_theta and rope_scaling (whose type stands under
// "rope_type" or, older, "type"). An unsupported type or a bad number is an error that names the key.
absl::StatusOr<RopeConfig> ReadRope(const nlohmann::json& config, int64_t max_position,
                                    const std::string& file);

}  // namespace ftune
