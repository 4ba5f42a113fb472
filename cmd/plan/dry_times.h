// How long a rank that is run dry takes for a step.
#pragma once

#include <vector>

#include "base/timeline.h"
#include "engine/plan/virtual_clock.h"

namespace ftune {

struct DryTimes {
  double step = 0.0;  // seconds, without what it waits for other stages of a pipeline
  std::vector<double>
      actions;  // of these, of each forward, backward and weight gradients, in the order of the schedule
  double beside_actions = 0.0;  // the rest: sums over ranks, the update
  double evaluation = 0.0;      // of a microbatch, where the recipe has data for one
  VirtualTimes parts;
  double transfer = 0.0;  // seconds of a transfer to another stage
};

// Of a step that took so long, with these spans.
DryTimes TimesOf(double step, const std::vector<TimeSpan>& spans, const VirtualTimes& parts, double transfer);

}  // namespace ftune
