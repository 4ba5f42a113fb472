#include "cmd/launch_hosts.h"

#include <set>

#include "base/error.h"

namespace ftune {

absl::StatusOr<std::vector<HostSlots>> HostsOf(const LoadedRecipe& loaded) {
  const LaunchSection& launch = loaded.recipe.launch;
  if (launch.hostfile) return ReadHostFile(*launch.hostfile);
  std::vector<HostSlots> hosts;
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
  return hosts;
}

}  // namespace ftune
