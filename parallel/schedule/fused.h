// Schedules whose backward is one action: a rank does some forwards, then a forward and a backward in turn,
// then the backwards that are left. What tells them apart is the order of the chunks and the number of
// forwards first.
#pragma once

#include <vector>

#include "parallel/schedule/schedule.h"

namespace ftune {

std::vector<std::vector<Action>> MakeGPipe(const ScheduleShape& shape);
// With several chunks, interleaved.
std::vector<std::vector<Action>> Make1F1B(const ScheduleShape& shape);

}  // namespace ftune
