// Several steps as one schedule: what ranks do that go on without waiting for each other between steps.
#pragma once

#include "parallel/schedule/schedule.h"

namespace ftune {

// The same lists `steps` times (≥ 1), of compute actions and transfers. Microbatch m of step s, from 0, is
// m + s * microbatches.
Schedule RepeatSteps(const Schedule& schedule, int steps);

}  // namespace ftune
