// Fields of config.json that would change the mathematics and that ftune does not have.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "engine/format/families.h"

namespace ftune {

// An error that names the first such field whose value is neither null nor the one that changes nothing.
// Fields that ftune does not know at all are ignored, as transformers does.
absl::Status CheckNeutralFields(const nlohmann::json& config, const Family& family, const std::string& file);

}  // namespace ftune
