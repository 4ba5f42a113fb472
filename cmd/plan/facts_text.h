// What a plan says beside memory and time: of the data, of what is saved and the disk, of the operations.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cmd/plan/plan_result.h"

namespace ftune {

std::string FactsText(const PlanResult& plan);
void AddFacts(const PlanResult& plan, nlohmann::ordered_json& json);

}  // namespace ftune
