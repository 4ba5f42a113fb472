// The handcrafted schedules of Qi et al. 2023, "Zero bubble pipeline parallelism", section 2: 1F1B whose
// weight gradients are put off to where ranks would idle.
#pragma once

#include <vector>

#include "parallel/schedule/schedule.h"

namespace ftune {

// No rank holds more than `ranks` stage-microbatches: rank r puts off r of its W.
std::vector<std::vector<Action>> MakeZbH1(const ScheduleShape& shape);
// No rank holds more than 2 * ranks - 1: rank r takes 2 * (ranks - 1 - r) forwards first, puts off 2r of its
// W.
std::vector<std::vector<Action>> MakeZbH2(const ScheduleShape& shape);

}  // namespace ftune
