// How long a step of the whole mesh takes, from the times of its roles.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "cmd/plan/roles.h"
#include "cmd/plan/timed_schedule.h"
#include "cmd/recipe/recipe.h"

namespace ftune {

struct StepTime {
  double seconds = 0.0;
  double bubble = 0.0;   // of the ranks' time, the share for which they wait for other stages
  double exposed = 0.0;  // seconds for which the slowest role waits for collectives
  VirtualTimes parts;    // of the slowest role
  std::optional<TimedSchedule> schedule;  // where there is a pipeline, in seconds
};

// None where the roles have no times.
absl::StatusOr<std::optional<StepTime>> TimeStep(const Recipe& recipe, const RolesOfMesh& mesh,
                                                 const std::optional<PipelinePlan>& stages);

}  // namespace ftune
