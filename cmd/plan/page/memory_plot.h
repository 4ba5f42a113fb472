// Memory over the time of a step, its categories one on another.
#pragma once

#include <cstdint>
#include <string>

#include "cmd/plan/page/time_plot.h"
#include "cmd/plan/roles.h"

namespace ftune {

// An SVG element. `time`: of the step. `room`: bytes that tensors may have, a line where it is not far above
// all else.
std::string MemoryPlot(const RankRole& role, int64_t room, const PlotTime& time);

}  // namespace ftune
