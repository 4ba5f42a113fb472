// How long a collective takes: alpha and beta of the links that a ring of its ranks has (Thakur et al.,
// "Optimization of collective communication operations in MPICH", 2005; NCCL's model of in-host and network
// hops).
#pragma once

#include "engine/plan/device_model.h"
#include "parallel/comm/call_observer.h"

namespace ftune {

// Where ranks are: rank r is on host r / per_host.
struct HostPlaces {
  int per_host = 1;

  int HostOf(int rank) const { return rank / per_host; }
};

// Hosts that the group's ranks are on.
int HostsOf(const GroupRanks& group, const HostPlaces& places);

// `span` is a call, not a wait. A group's ranks on one host send to other hosts side by side, each over its
// own adapter.
double CallSeconds(const DeviceModel& device, const HostPlaces& places, const CommSpan& span);

// Of bytes that a rank reads from its host's disk or writes to it, as all ranks of the host do at once: what
// an accelerator has passes through its host's memory on the way.
double DiskSeconds(const DeviceModel& device, const HostPlaces& places, int64_t bytes);

}  // namespace ftune
