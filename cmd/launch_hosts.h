// Which hosts a recipe runs on.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "cmd/recipe/load.h"
#include "parallel/launch/host_list.h"

namespace ftune {

// Those of launch.hosts or launch.hostfile, with the ranks that each has been given (0: launch.ranks_per_host
// says); none: this host alone.
absl::StatusOr<std::vector<HostSlots>> HostsOf(const LoadedRecipe& loaded);

}  // namespace ftune
