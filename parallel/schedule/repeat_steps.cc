#include "parallel/schedule/repeat_steps.h"

namespace ftune {

Schedule RepeatSteps(const Schedule& schedule, int steps) {
  Schedule repeated = {.shape = schedule.shape, .ranks = {}};
  repeated.shape.microbatches *= steps;
  for (const std::vector<Action>& actions : schedule.ranks) {
    std::vector<Action>& all = repeated.ranks.emplace_back();
    for (int step = 0; step < steps; ++step) {
      for (Action action : actions) {
        action.microbatch += step * schedule.shape.microbatches;
        all.push_back(action);
      }
    }
  }
  return repeated;
}

}  // namespace ftune
