// Which layers of a model have a sliding window, and which rotate positions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "engine/format/families.h"
#include "engine/model/config.h"

namespace ftune {

// Sets layer_window and layer_rope from config.json; `file` is named in errors. num_layers is known.
absl::Status ReadLayers(const nlohmann::json& config, const Family& family, const std::string& file,
                        ModelConfig& model);

}  // namespace ftune
