// What a rank shows of itself while it runs, to the ftune that started it: where it is, and what its last
// step took.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "parallel/comm/call.h"
#include "parallel/comm/group_ranks.h"

namespace ftune {

inline constexpr int kCallKinds = static_cast<int>(CallKind::kBarrier) + 1;

// One look at a rank. Of a rank that has shown nothing yet all is empty.
struct Pulse {
  int64_t step = 0;          // that it is in; 0 before the first
  int64_t total_steps = 0;   // of the run; 0 where that is not known yet
  std::string phase;         // "start", "load the model", "data", "forward", "backward", "update", …
  int64_t micro_batch = -1;  // in a step's forward and backward
  std::string call;          // the collective that it waits in, with its group: see CallSignature; else empty
  uint64_t calls = 0;        // collectives that it has begun, over all groups
  double still_seconds = 0.0;    // since it has shown anything new
  double step_seconds = 0.0;     // of the last whole step; as are the next two
  double compute_seconds = 0.0;  // in which it did not wait for other ranks, nor for data
  double wait_seconds = 0.0;     // in which it waited for other ranks
  double data_wait_seconds = 0.0;
  int64_t resident_bytes = 0;                          // of the process
  std::array<int64_t, kCallKinds> network_bytes = {};  // sent since the rank began, by the kind of call
  GroupRanks group;                                    // of `call`
  uint64_t sequence = 0;                               // of `call` in that group

  bool operator==(const Pulse&) const = default;
};

// The phase in which a rank writes what it has trained.
inline constexpr std::string_view kSavePhase = "save";

// Where it is: "in step 12, backward of microbatch 3, all_reduce(…) #7 of ranks 0, 1", or "before the first
// step (load the model)"; empty where it has shown nothing.
std::string DescribePlace(const Pulse& pulse);

}  // namespace ftune
