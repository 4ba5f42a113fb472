// A plan as programs read it: bytes, seconds, tokens a second.
#pragma once

#include <nlohmann/json.hpp>

#include "cmd/plan/plan_result.h"

namespace ftune {

nlohmann::ordered_json PlanJson(const PlanResult& plan);

}  // namespace ftune
