// Puts actions of a schedule where ranks would wait.
#pragma once

#include "parallel/schedule/schedule.h"

namespace ftune {

// Lists with other orders of the same actions, if they are done earlier under `costs`, or else the schedule
// as it is. Where a rank would wait for the next action of its list, one that comes later takes its place if
// it can begin, as in the reordering of Qi et al. 2024 ("Pipeline parallelism with controllable memory"), and
// W may be put off for others. Of what several such rules make, the shortest is improved again until nothing
// helps. Microbatches of a stage stay in order, and no rank ever holds more stage-microbatches between F and
// W than the rank with the most did before. For lists of compute actions alone, with backward in two halves.
Schedule PullAheadIfShorter(Schedule schedule, const ScheduleCosts& costs);

}  // namespace ftune
