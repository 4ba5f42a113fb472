// What a comparison of meshes found, from the rank that reports it to `ftune verify`.
#pragma once

#include <nlohmann/json.hpp>

#include "engine/verify/verify_run.h"

namespace ftune {

// An error that is not finite is null.
nlohmann::ordered_json ToJson(const VerifyResult& result);

}  // namespace ftune
