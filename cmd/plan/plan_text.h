// A plan as people read it.
#pragma once

#include <string>

#include "cmd/plan/plan_result.h"

namespace ftune {

std::string PlanText(const PlanResult& plan);

}  // namespace ftune
