#include "engine/plan/call_seconds.h"

#include <algorithm>
#include <cmath>

namespace ftune {
namespace {

struct Hops {
  double in_host = 0.0;
  double network = 0.0;
};

// One after another, of a call of `ranks` on `hosts`.
Hops HopsOf(CallKind kind, double ranks, double hosts) {
  const Hops once = {ranks - hosts, hosts > 1 ? hosts - 1 : 0};
  const Hops tree = {std::ceil(std::log2(ranks / hosts)), std::ceil(std::log2(hosts))};
  // Rings where they are short; else recursive doubling, which sends as many bytes.
  const Hops shorter = {std::min(once.in_host, tree.in_host), std::min(once.network, tree.network)};
  switch (kind) {
    case CallKind::kAllReduce:
      return {2 * shorter.in_host, 2 * shorter.network};
    case CallKind::kReduceScatter:
    case CallKind::kAllGather:
      return shorter;
    case CallKind::kAllToAll:
      return once;
    case CallKind::kBroadcast:
    case CallKind::kBarrier:
      return tree;
    case CallKind::kSend:
      return hosts > 1 ? Hops{0, 1} : Hops{1, 0};
    case CallKind::kReceive:
      return {};
  }
  return {};
}

}  // namespace

int HostsOf(const GroupRanks& group, const HostPlaces& places) {
  if (group.count <= 1) return 1;
  const int last = group.first + group.distance * (group.count - 1);
  if (group.distance == 0) return 1;
  if (group.distance >= places.per_host) return group.count;
  return places.HostOf(last) - places.HostOf(group.first) + 1;
}

double CallSeconds(const DeviceModel& device, const HostPlaces& places, const CommSpan& span) {
  const int ranks = span.ranks.count, hosts = HostsOf(span.ranks, places);
  if (ranks <= 1) return 0.0;
  const Hops hops = HopsOf(span.call.kind, ranks, hosts);
  double bandwidth = device.in_host.bandwidth;
  if (hosts > 1) {
    const double beside = static_cast<double>(ranks) / hosts;
    const double network = device.network.bandwidth * (span.call.kind == CallKind::kSend ? 1.0 : beside);
    bandwidth = hosts == ranks ? network : std::min(bandwidth, network);
  }
  const double latency = hops.in_host * device.in_host.latency + hops.network * device.network.latency;
  return latency + (bandwidth > 0 ? static_cast<double>(span.bytes_to_send) / bandwidth : 0.0);
}

double DiskSeconds(const DeviceModel& device, const HostPlaces& places, int64_t bytes) {
  if (device.disk.bandwidth <= 0.0) return 0.0;
  double bandwidth = device.disk.bandwidth / places.per_host;
  double latency = device.disk.latency;
  if (!device.is_cpu && device.to_host.bandwidth > 0.0) {
    bandwidth = std::min(bandwidth, device.to_host.bandwidth);
    latency += device.to_host.latency;
  }
  return latency + static_cast<double>(bytes) / bandwidth;
}

}  // namespace ftune
