// Time and memory of a schedule from given costs: a discrete-event simulation of its lists.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "parallel/schedule/schedule.h"

namespace ftune {

// An ordered pair of ranks carries one transfer at a time, for `seconds_per_transfer` each; what is sent
// arrives `latency` after that. Sends and receives cost the ranks themselves no time, and a send never waits.
struct LinkCosts {
  double latency = 0;
  double seconds_per_transfer = 0;
};

// What a microbatch in a stage holds from its forward on, in any unit: one part until B, one until W. BW
// gives back both at its end. A stage without backward holds nothing.
struct ActivationWeight {
  double until_input = 0;
  double until_weight = 1;
};

struct TimedAction {
  Action action;
  // Of compute actions, when the rank is busy with them. A send ends when what is sent arrives, a receive
  // begins where it is posted and ends then too; all others take no time. Where the lists have no transfers,
  // these happen by themselves, but are not listed.
  double begin = 0;
  double end = 0;
};

struct RankSimulation {
  std::vector<TimedAction> actions;  // in the order of the rank's list
  double busy = 0;
  double bubble = 0;   // of the makespan
  double waiting = 0;  // between the begin of its first action and the end of its last
  double peak_activations = 0;
};

struct Simulation {
  std::vector<RankSimulation> ranks;
  double makespan = 0;
  double bubble_ratio = 0;  // of all ranks' time: 1 - busy / (ranks * makespan)
};

// `activations` has one entry a stage or one for all. The schedule must be one that CheckSchedule accepts:
// one that does not come to its end is an error. Link and costs are in the same unit; `costs.transfer` is not
// used.
absl::StatusOr<Simulation> SimulateSchedule(const Schedule& schedule, const ScheduleCosts& costs,
                                            const LinkCosts& link,
                                            const std::vector<ActivationWeight>& activations = {{}});
// Links have the latency `costs.transfer` and carry any number of transfers at a time.
absl::StatusOr<Simulation> SimulateSchedule(const Schedule& schedule, const ScheduleCosts& costs = {});

}  // namespace ftune
