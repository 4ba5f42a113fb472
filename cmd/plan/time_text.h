// What a plan says of time.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cmd/plan/plan_result.h"

namespace ftune {

// Empty where the device is not known.
std::string TimeText(const PlanResult& plan);
void AddTime(const PlanResult& plan, nlohmann::ordered_json& json);

}  // namespace ftune
