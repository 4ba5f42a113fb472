// A recipe's pipeline schedule, with the time that it takes.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "cmd/train/pipeline_plan.h"
#include "parallel/schedule/check.h"
#include "parallel/schedule/simulate.h"

namespace ftune {

struct TimedSchedule {
  Schedule schedule;
  Simulation simulation;
  ScheduleFacts facts;
  // From the end of a step to that of the next where ranks go on without waiting for each other; none where
  // the schedule gains nothing by it.
  std::optional<double> ahead;
};

// The schedule is that of the plan; it is timed with `costs` and `link`, in one unit.
absl::StatusOr<TimedSchedule> TimeSchedule(const PipelinePlan& plan, const ScheduleCosts& costs,
                                           const LinkCosts& link);

}  // namespace ftune
