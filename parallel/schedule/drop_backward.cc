#include "parallel/schedule/drop_backward.h"

namespace ftune {

Schedule DropBackward(Schedule schedule, int first_backward_stage) {
  for (std::vector<Action>& actions : schedule.ranks) {
    std::erase_if(actions, [&](const Action& action) {
      return action.stage < first_backward_stage && action.kind != ActionKind::kForward;
    });
  }
  return schedule;
}

}  // namespace ftune
