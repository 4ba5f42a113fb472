// Texts of all ranks on one.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "parallel/comm/communicator.h"

namespace ftune {

// What each rank gives, in order of the ranks; empty on all but rank 0. Called by all ranks of the group.
absl::StatusOr<std::vector<std::string>> GatherText(Communicator& group, const std::string& text);

}  // namespace ftune
