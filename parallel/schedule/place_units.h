// Completes lists by when ZeRO gathers, releases and reduces: to be checked. BlockHooks do it, block by
// block.
#pragma once

#include "parallel/schedule/schedule.h"

namespace ftune {

struct UnitOptions {
  int zero = 0;                // stage 0 to 3
  bool keep_for_step = false;  // of 3: values stay whole from a stage's first use in the step to its last
};

// ZeRO 3: kGather and kRelease around each compute action, or around several of a stage that a rank does one
// after another; with keep_for_step around all of a stage. A release comes after the sends of the action
// before it. kReduce: directly after each action that makes gradients of parameters for ZeRO 2 and 3, after a
// stage's last one for 0 and 1.
Schedule PlaceUnits(Schedule schedule, const UnitOptions& options);

}  // namespace ftune
