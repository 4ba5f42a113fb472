// How long calls take while all ranks make them.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "parallel/comm/communicator.h"

namespace ftune {

double Median(std::vector<double> values);

// Seconds of a call: the median of as many as there is time for, the mean over the ranks. Called by all ranks
// alike.
absl::StatusOr<double> SecondsOf(Communicator& ranks, const std::function<void()>& call);

// The same of a collective, which all ranks make equally often.
absl::StatusOr<double> SecondsOfCall(Communicator& ranks, const Call& call);

}  // namespace ftune
