// As many ranks as a host would have, to measure what they reach while all of them are at work.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "parallel/comm/communicator.h"

namespace ftune {

// Runs `work` in processes that are pinned to their shares of the cores and share memory; this process is
// rank 0. An error of rank 0, or that another rank has ended early. Called while there is one thread.
absl::Status RunOnRanks(int ranks, const std::function<absl::Status(Communicator& ranks)>& work);

}  // namespace ftune
