// Proves a schedule before anything runs: each action where it must be, once, and no rank ever waiting for
// ever.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "parallel/schedule/schedule.h"

namespace ftune {

// The first thing that is wrong.
struct ScheduleFault {
  int rank = 0;
  int position = -1;  // in the rank's list; -1: in none of its actions, as with one that is missing
  std::string message;
  std::string hint;
};

// Most stage-microbatches at a time, each counted from the begin of an action to the end of another. A stage
// without backward keeps nothing.
struct RankFacts {
  int peak_live = 0;                    // from F to BW or W
  int peak_until_input = 0;             // from F to BW or B
  int peak_until_weight = 0;            // from B to W: what W needs is kept
  std::vector<int> peak_live_of_chunk;  // peak_live of each chunk alone
};

struct ScheduleFacts {
  std::vector<RankFacts> ranks;
  bool has_transfers = false;
  bool has_units = false;  // kGather and kRelease
  // Whether sends that wait for their receives would deadlock; then `rendezvous_deadlock` says how.
  bool needs_buffered_sends = false;
  std::string rendezvous_deadlock;
};

// Each stage from `first_backward_stage` on has F and either BW or B and W of each microbatch, each stage
// below F alone, on the rank that holds it, after what it needs; where any list has transfers, all that there
// must be, in the same order at both ends of each link; where any has units, each compute action between
// gather and release of its stage; where any has reductions, one after the last gradients of each stage.
// Executed with buffered sends and receives that do not wait, all lists come to their end.
std::optional<ScheduleFault> FindFault(const Schedule& schedule, int first_backward_stage = 0);

// The same, as an error that names rank, action and which it is of its list, from 1.
absl::StatusOr<ScheduleFacts> CheckSchedule(const Schedule& schedule, int first_backward_stage = 0);

}  // namespace ftune
