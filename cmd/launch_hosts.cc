#include "cmd/launch_hosts.h"

#include <set>

#include "base/environment.h"
#include "base/error.h"
#include "parallel/launch/slurm/scope.h"
#include "parallel/launch/slurm/step_tasks.h"

namespace ftune {
namespace {

// The Slurm job whose script or shell this process is of. What is wrong with its variables, who starts ranks
// says.
SlurmScope AllocationHere() {
  absl::StatusOr<SlurmScope> scope = ReadSlurm(ProcessEnvironment(), EnclosingStep());
  return scope.ok() && scope->kind == SlurmScope::Kind::kAllocation ? *std::move(scope) : SlurmScope();
}

absl::StatusOr<std::vector<HostSlots>> NamedHosts(const LoadedRecipe& loaded) {
  const LaunchSection& launch = loaded.recipe.launch;
  std::vector<HostSlots> hosts;
  if (launch.hostfile) {
    FTUNE_ASSIGN_OR_RETURN(hosts, ReadHostFile(*launch.hostfile));
  }
  std::set<std::string> names;
  for (const Host& host : launch.hosts) {
    if (!names.insert(host.host).second) {
      ErrorDetail detail = loaded.At("launch.hosts");
      detail.found = host.host + " twice";
      detail.expected = "each host once, with as many slots as it has ranks";
      return UsageError(std::move(detail));
    }
    hosts.push_back({.name = host.host, .slots = static_cast<int>(host.slots.value_or(0))});
  }
  const HostFilter filter = {.include = launch.include.value_or(""), .exclude = launch.exclude.value_or("")};
  absl::StatusOr<std::vector<HostSlots>> left = FilterHosts(std::move(hosts), filter);
  return left.ok() ? std::move(left) : loaded.Placed(left.status());
}

std::vector<HostSlots> NodesOfJob(const LoadedRecipe& loaded) {
  const SlurmScope job = AllocationHere();
  std::vector<HostSlots> nodes;
  if (job.is_this_node()) return nodes;
  for (const std::string& node : job.nodes) nodes.push_back({.name = node});
  if (nodes.empty()) nodes.resize(static_cast<size_t>(loaded.recipe.launch.slurm.nodes));
  return nodes;
}

}  // namespace

LaunchKind KindHere(const LoadedRecipe& loaded) {
  const LaunchSection& launch = loaded.recipe.launch;
  if (launch.kind) return *launch.kind;
  const SlurmScope job = AllocationHere();
  if (!job.nodes.empty() && !job.is_this_node()) return LaunchKind::kSlurm;
  return launch.hosts.empty() && !launch.hostfile ? LaunchKind::kLocal : LaunchKind::kSsh;
}

absl::StatusOr<std::vector<HostSlots>> HostsOf(const LoadedRecipe& loaded) {
  switch (KindHere(loaded)) {
    case LaunchKind::kSsh:
      return NamedHosts(loaded);
    case LaunchKind::kSlurm:
      return NodesOfJob(loaded);
    case LaunchKind::kLocal:
    case LaunchKind::kEnv:
      break;
  }
  return std::vector<HostSlots>();
}

}  // namespace ftune
