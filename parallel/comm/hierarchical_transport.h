// Ranks on several hosts: what can stay inside a host does, and only sums or shares cross between hosts.
//
// An all-reduce is a reduce-scatter inside each host, an all-reduce of the shares between the ranks of equal
// place on all hosts, and an all-gather inside. Where hosts have unequal numbers of ranks, the first rank of
// each host crosses for all of them. So sums are made inside each host first, in the order of its ranks, then
// in the order of the hosts: the same on all ranks and in every run, but other roundings than rank by rank.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "parallel/comm/transport.h"

namespace ftune {

// `hosts`: the number of ranks of each host, whose ranks follow one another. `inner`: of this host's ranks,
// in their order. `outer`: of all ranks. Called by all ranks alike.
absl::StatusOr<std::unique_ptr<Transport>> MakeHierarchicalTransport(const std::vector<int>& hosts,
                                                                     std::unique_ptr<Transport> inner,
                                                                     std::unique_ptr<Transport> outer);

}  // namespace ftune
