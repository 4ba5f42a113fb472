// A step of each role for Chrome's trace viewer and Perfetto.
#pragma once

#include <nlohmann/json.hpp>

#include "cmd/plan/plan_result.h"

namespace ftune {

// A process a role, in their order; its memory by category is a counter. Times from the begin of the step.
nlohmann::json PlanTrace(const PlanResult& plan);

}  // namespace ftune
