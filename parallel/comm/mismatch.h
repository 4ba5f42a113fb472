// The errors of a call that goes wrong, the same whatever moves the bytes.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "parallel/comm/call.h"

namespace ftune {

struct RankCall {
  int rank = 0;
  CallSignature call;
};

// Ranks that do not make the same call; each waits for the next.
absl::Status MismatchError(const std::vector<RankCall>& calls);
// An all-to-all in which `other` sends another number of elements than `rank` takes from it.
absl::Status CountMismatchError(int rank, int64_t taken, int other, int64_t sent);
// `missing` did not come to a call in time.
absl::Status TimeoutError(int missing, const std::string& call, absl::Duration waited);
// `missing` did not come to the making of a group of `members` in time.
absl::Status NoMemberError(int missing, const std::vector<int>& members, absl::Duration waited);
// `lost` is gone.
absl::Status LostRankError(int lost, const std::string& how);

}  // namespace ftune
