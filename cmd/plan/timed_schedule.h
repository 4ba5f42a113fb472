// A pipeline's schedule with the times of a simulation.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "cmd/train/pipeline_plan.h"
#include "parallel/schedule/check.h"
#include "parallel/schedule/schedule.h"
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

// In the units of the plan's modelled costs.
absl::StatusOr<TimedSchedule> TimeSchedule(const PipelinePlan& plan);

}  // namespace ftune
