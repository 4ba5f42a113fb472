// A plan as people read it.
#pragma once

#include <string>
#include <vector>

#include "cmd/plan/plan_result.h"
#include "cmd/report/table.h"

namespace ftune {

// Lines that say what was planned.
std::string HeadText(const PlanResult& plan);
// A row a role, below a head.
std::vector<TableRow> MemoryRows(const PlanResult& plan);
// One line a role: when it needs most.
std::string MomentsText(const PlanResult& plan);
// Whether it fits: a line.
std::string VerdictText(const PlanResult& plan);

// All of these.
std::string PlanText(const PlanResult& plan);

}  // namespace ftune
