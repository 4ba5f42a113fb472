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
  double bubble = 0.0;      // of the ranks' time, the share for which they wait for other stages
  double exposed = 0.0;     // seconds for which the slowest role waits for collectives
  double evaluation = 0.0;  // seconds of a microbatch; stages of a pipeline do several at once
  VirtualTimes parts;       // of the slowest role
  std::optional<TimedSchedule> schedule;  // where there is a pipeline, in seconds
};

// What the roles did: a step of so many microbatches, in these stages of a pipeline, if there is one.
struct DryStep {
  int microbatches = 1;
  std::optional<PipelinePlan> stages;
};

// None where the roles have no times. Of `recipe`, which may have more microbatches than they did, and its
// `stages`.
absl::StatusOr<std::optional<StepTime>> TimeStep(const Recipe& recipe,
                                                 const std::optional<PipelinePlan>& stages,
                                                 const RolesOfMesh& mesh, const DryStep& done);

}  // namespace ftune
