// A plan as a page for a browser: complete in one file, without links and scripts.
#pragma once

#include <string>

#include "cmd/plan/plan_result.h"

namespace ftune {

// `title` in plain text. The plan has traces. `schedule`: the pipeline's, an SVG element, or empty.
std::string PlanPage(const PlanResult& plan, const std::string& title, const std::string& schedule);

}  // namespace ftune
