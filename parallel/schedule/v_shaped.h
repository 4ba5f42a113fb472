// Schedules of two chunks a rank whose stages go down the ranks and back up, so that a microbatch's last
// stage is on rank 0, as its first, and every rank holds the same number of activations.
#pragma once

#include <vector>

#include "parallel/schedule/schedule.h"

namespace ftune {

// Qi et al. 2023, "Zero bubble pipeline parallelism": no idle time where F, B and W cost the same and there
// are at least 2 * ranks - 1 microbatches; 2 * ranks chunk-microbatches live.
std::vector<std::vector<Action>> MakeZbV(const ScheduleShape& shape);

// Qi et al. 2024, "Pipeline parallelism with controllable memory", section 3 and appendix: one microbatch's
// actions on all ranks are a building block, which is repeated every 6 time units (F, B and W of two chunks).
// What is live is the length from F to B over 6. The lists have the order of the repeated blocks; executing
// them without the pauses is the paper's squeezing, pull_ahead.h its reordering. The blocks fit each other
// without gaps where F, B and W cost the same. With other costs each microbatch adds a pause; pull_ahead.h
// removes most of it from V-Half, but little from V-Min, whose memory has no room for that.
std::vector<std::vector<Action>> MakeVHalf(const ScheduleShape& shape);
std::vector<std::vector<Action>> MakeVMin(const ScheduleShape& shape);

}  // namespace ftune
