// Which hosts a recipe runs on.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "cmd/recipe/load.h"
#include "parallel/launch/host_list.h"

namespace ftune {

// launch.kind, or what `auto` is here, where nobody has started ranks: a Slurm job that has more than this
// host is used; else the recipe's hosts; else this host alone.
LaunchKind KindHere(const LoadedRecipe& loaded);

// Of kind ssh those of launch.hosts or launch.hostfile, as launch.include and launch.exclude leave them; of
// kind slurm the nodes of the job, or, outside of one, as many nameless ones as launch.slurm.nodes asks for.
// Each with the ranks that it has been given (0: launch.ranks_per_host says). None: this host alone.
absl::StatusOr<std::vector<HostSlots>> HostsOf(const LoadedRecipe& loaded);

}  // namespace ftune
