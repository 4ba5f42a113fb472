// The errors of a call that goes wrong, the same whatever moves the bytes.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "parallel/comm/call.h"

namespace ftune {

// Two ranks that do not make the same call.
absl::Status MismatchError(int rank, const CallSignature& call, int other, const CallSignature& other_call);
// An all-to-all in which `other` sends another number of elements than `rank` takes from it.
absl::Status CountMismatchError(int rank, int64_t taken, int other, int64_t sent);
// `missing` did not come to a call in time.
absl::Status TimeoutError(int missing, const CallSignature& call, absl::Duration waited);
// `lost` is gone.
absl::Status LostRankError(int lost, const std::string& how);

}  // namespace ftune
