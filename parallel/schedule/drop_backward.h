// Leaves out the backward that nobody needs.
#pragma once

#include "parallel/schedule/schedule.h"

namespace ftune {

// Stages below `first_backward_stage` have no trainable parameters, and none below them: they keep their
// forward alone. The stage itself keeps its backward; InsertTransfers, to be called after this, then sends no
// gradient of its input. From 0 to the number of stages; for lists of compute actions alone.
Schedule DropBackward(Schedule schedule, int first_backward_stage);

}  // namespace ftune
