// What a rank does in a step, a lane under another.
#pragma once

#include <string>
#include <vector>

#include "base/timeline.h"

namespace ftune {

// An SVG element. `seconds`: of the step. Spans of a lane that overlap stand under each other; those too
// short to be seen are drawn together.
std::string LanePlot(const std::vector<TimeSpan>& spans, const std::string& name, double seconds);

}  // namespace ftune
