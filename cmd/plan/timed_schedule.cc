#include "cmd/plan/timed_schedule.h"

#include <utility>

#include "base/error.h"
#include "parallel/schedule/drop_backward.h"
#include "parallel/schedule/repeat_steps.h"

namespace ftune {

absl::StatusOr<TimedSchedule> TimeSchedule(const PipelinePlan& plan, const ScheduleCosts& costs,
                                           const LinkCosts& link) {
  TimedSchedule timed;
  FTUNE_ASSIGN_OR_RETURN(timed.schedule, plan.source.Make(plan.shape.ranks, plan.microbatches));
  timed.schedule = DropBackward(std::move(timed.schedule), plan.first_backward);
  FTUNE_ASSIGN_OR_RETURN(timed.facts, CheckSchedule(timed.schedule, plan.first_backward));
  FTUNE_ASSIGN_OR_RETURN(timed.simulation, SimulateSchedule(timed.schedule, costs, link));
  if (plan.source.given || plan.shape.ranks == 1 || !GainsWithoutBarrier(plan.source.kind)) return timed;
  const auto of_steps = [&](int steps) -> absl::StatusOr<double> {
    FTUNE_ASSIGN_OR_RETURN(const Simulation simulation,
                           SimulateSchedule(RepeatSteps(timed.schedule, steps), costs, link));
    return simulation.makespan;
  };
  constexpr int kMany = 5;  // by then all steps are alike
  FTUNE_ASSIGN_OR_RETURN(const double many, of_steps(kMany));
  FTUNE_ASSIGN_OR_RETURN(const double fewer, of_steps(kMany - 1));
  timed.ahead = many - fewer;
  return timed;
}

}  // namespace ftune
