// Pictures of a timed schedule: a row a rank, time to the right.
#pragma once

#include <string>

#include "parallel/schedule/schedule.h"
#include "parallel/schedule/simulate.h"

namespace ftune {

// Where an SVG stands: in a file of its own, on white, or in a page, on the page's colour and with its text.
enum class SvgPlace { kFile, kPage };

// Compute actions coloured by kind and shaded by chunk, with the number of the microbatch
// where there is room and kind, stage, microbatch and times when pointed at; legend and time axis. `unit` is
// written after the times, for example "ms".
std::string ScheduleSvg(const Schedule& schedule, const Simulation& simulation, const std::string& unit = "",
                        SvgPlace place = SvgPlace::kFile);

// For a terminal: compute actions as kind and microbatch ("F3"; with chunks "F3a", "F3b"), as wide as they
// are long, up to the next by "-"; spaces where the rank waits. The shortest action is as wide as the longest
// label, or less where a row would otherwise be longer than `columns` (0: of any length); what does not fit
// its width is cut to the kind's first letter.
std::string ScheduleText(const Schedule& schedule, const Simulation& simulation, int columns = 0);

}  // namespace ftune
