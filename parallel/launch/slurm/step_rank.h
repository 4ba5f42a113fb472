// A task of a Slurm step as a rank.
#pragma once

#include "absl/status/statusor.h"
#include "base/environment.h"
#include "parallel/launch/rank_environment.h"
#include "parallel/launch/slurm/scope.h"

namespace ftune {

// Of a step with several tasks. Rank 0's address is the step's first node, its port one that follows from the
// job, the step and how often the job was restarted, below those that systems give out by themselves;
// MASTER_ADDR and MASTER_PORT in `environment` take their place. The store's prefix has all three numbers, so
// that tasks of an earlier start, on a node that was cut off, say, are refused.
absl::StatusOr<RankEnvironment> RankOfStep(const SlurmScope& scope, const EnvironmentReader& environment);

}  // namespace ftune
