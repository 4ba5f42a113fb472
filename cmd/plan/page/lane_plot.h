// What a rank does in a step, a lane under another.
#pragma once

#include <string>
#include <vector>

#include "base/timeline.h"
#include "cmd/plan/page/time_plot.h"

namespace ftune {

// An SVG element. `time`: of the step. Spans of a lane that overlap stand under each other; those too
// short to be seen are drawn together.
std::string LanePlot(const std::vector<TimeSpan>& spans, const std::string& name, const PlotTime& time);

}  // namespace ftune
