// Texts of all ranks on one, and of one on all.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "parallel/comm/communicator.h"

namespace ftune {

// What each rank gives, in order of the ranks; empty on all but rank 0. Called by all ranks of the group.
absl::StatusOr<std::vector<std::string>> GatherText(Communicator& group, const std::string& text);

// The first rank's text on all ranks; an error of the first rank is one of all. Called by all of them.
absl::StatusOr<std::string> TextOfFirst(Communicator& group, const absl::StatusOr<std::string>& own);

}  // namespace ftune
