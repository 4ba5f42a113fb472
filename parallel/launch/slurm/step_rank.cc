#include "parallel/launch/slurm/step_rank.h"

#include <xxhash.h>

#include <optional>
#include <string>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

// Ports that neither need root nor are given out by the system (from 32768 on, under Linux).
constexpr int kFirstPort = 10000;
constexpr int kPorts = 20000;

}  // namespace

absl::StatusOr<RankEnvironment> RankOfStep(const SlurmScope& scope, const EnvironmentReader& environment) {
  const std::string name = StrCat(scope.job, ".", scope.step, ".", scope.restarts);
  RankEnvironment rank = {
      .rank = scope.task,
      .world_size = scope.tasks(),
      .local_rank = scope.local_task,
      .local_world_size = scope.local_tasks(),
      .address = environment("MASTER_ADDR").value_or(scope.nodes[0]),
      .port = kFirstPort + static_cast<int>(XXH3_64bits(name.data(), name.size()) % kPorts),
      .prefix = StrCat("ftune/slurm/", name, "/"),
      .source = RankSource::kSlurm};
  FTUNE_ASSIGN_OR_RETURN(const std::optional<int> port, ReadMasterPort(environment));
  rank.port = port.value_or(rank.port);
  return rank;
}

}  // namespace ftune
