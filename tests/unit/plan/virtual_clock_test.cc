#include "engine/plan/virtual_clock.h"

#include <doctest/doctest.h>

#include <memory>

#include "parallel/comm/communicator.h"
#include "parallel/comm/counting_transport.h"

namespace ftune {
namespace {

// A second for each 100 bytes of a copy; links of 10 bytes a second within a host and 1 between hosts.
DeviceModel SlowDevice() {
  DeviceModel device;
  device.rates[static_cast<size_t>(OpClass::kCopy)].bytes = 100.0;
  device.in_host = {.latency = 0.5, .bandwidth = 10.0};
  device.network = {.latency = 2.0, .bandwidth = 1.0};
  return device;
}

OpWork CopyOf(double bytes) { return {.op = OpClass::kCopy, .bytes = bytes}; }

Call GatherOf(int ranks, int64_t bytes_each) {
  const Buffer own = {.count = bytes_each, .dtype = DType::kU8};
  return Call::AllGather(own, {.count = ranks * bytes_each, .dtype = DType::kU8},
                         std::vector<int64_t>(ranks, bytes_each));
}

CommSpan SpanOf(const Call& call, GroupRanks ranks, int64_t bytes_to_send) {
  return {.ranks = ranks, .call = call.signature(), .bytes_to_send = bytes_to_send};
}

}  // namespace

TEST_CASE("calls that were started go on beside the ops, and what is left of them is waited for") {
  const DeviceModel device = SlowDevice();
  VirtualClock clock(device, {.per_host = 2});
  Communicator group(MakeCountingTransport(0, 2));
  group.set_observers({&clock});
  Pending first = group.Start(GatherOf(2, 100));   // 0.5 + 100 / 10 seconds
  Pending second = group.Start(GatherOf(2, 100));  // behind the first
  clock.OnOp(CopyOf(400));
  CHECK(clock.now() == doctest::Approx(4.0));
  REQUIRE(first.Wait().ok());
  CHECK(clock.now() == doctest::Approx(10.5));
  clock.OnOp(CopyOf(2000));
  REQUIRE(second.Wait().ok());
  CHECK(clock.now() == doctest::Approx(30.5));  // it had come
  CHECK(clock.times().exposed == doctest::Approx(6.5));
  CHECK(clock.times().calls == doctest::Approx(21.0));
  CHECK(clock.times().in_host_bytes == 200.0);
  // One that is waited for at once.
  REQUIRE(group.Run(GatherOf(2, 100)).ok());
  CHECK(clock.now() == doctest::Approx(41.0));
}

TEST_CASE("a processor moves bytes instead of computing") {
  DeviceModel device = SlowDevice();
  device.is_cpu = true;
  VirtualClock clock(device, {.per_host = 2});
  Communicator group(MakeCountingTransport(0, 2));
  group.set_observers({&clock});
  Pending pending = group.Start(GatherOf(2, 100));
  clock.OnOp(CopyOf(400));
  REQUIRE(pending.Wait().ok());
  CHECK(clock.now() == doctest::Approx(14.5));
}

TEST_CASE("a disk's requests come one after another, beside the ops, at the ranks' shares of it") {
  DeviceModel device = SlowDevice();
  device.to_host = {.latency = 0.5, .bandwidth = 100.0};
  device.disk = {.latency = 0.5, .bandwidth = 20.0};
  VirtualClock clock(device, {.per_host = 2});
  const uint64_t first = clock.OnDiskBegin(40);  // 1 + 40 / (20 / 2) seconds
  const uint64_t second = clock.OnDiskBegin(40);
  CHECK(!clock.IsDiskDone(first));
  clock.OnOp(CopyOf(600));
  CHECK(clock.IsDiskDone(first));
  clock.OnDiskWait(first);
  CHECK(clock.now() == doctest::Approx(6.0));
  CHECK(!clock.IsDiskDone(second));
  clock.OnDiskWait(second);
  CHECK(clock.now() == doctest::Approx(10.0));
  CHECK(clock.times().disk == doctest::Approx(4.0));
  CHECK(clock.times().exposed == 0.0);
  CHECK(DiskSeconds(device, {.per_host = 2}, 40) == doctest::Approx(5.0));
  device.to_host.bandwidth = 4.0;  // what is nearer is slower
  CHECK(DiskSeconds(device, {.per_host = 2}, 40) == doctest::Approx(11.0));
  device.is_cpu = true;
  CHECK(DiskSeconds(device, {.per_host = 2}, 40) == doctest::Approx(4.5));
  device.disk = {};
  CHECK(DiskSeconds(device, {.per_host = 2}, 40) == 0.0);
}

TEST_CASE("hosts of a group") {
  const HostPlaces places = {.per_host = 4};
  CHECK(HostsOf({.first = 0, .distance = 1, .count = 4}, places) == 1);
  CHECK(HostsOf({.first = 0, .distance = 1, .count = 8}, places) == 2);
  CHECK(HostsOf({.first = 1, .distance = 4, .count = 5}, places) == 5);
  CHECK(HostsOf({.first = 1, .distance = 2, .count = 2}, places) == 1);
  CHECK(HostsOf({.first = 0, .distance = 2, .count = 4}, places) == 2);
  CHECK(HostsOf({.first = 3, .distance = 1, .count = 1}, places) == 1);
}

TEST_CASE("collectives take alpha and beta of a ring's links") {
  const DeviceModel device = SlowDevice();
  const HostPlaces places = {.per_host = 2};
  const auto seconds = [&](const Call& call, GroupRanks ranks, int64_t bytes) {
    return CallSeconds(device, places, SpanOf(call, ranks, bytes));
  };
  const Call sum = Call::AllReduce({.count = 100, .dtype = DType::kU8});
  // 2 (n - 1) hops and 2 (n - 1) / n of the bytes.
  CHECK(seconds(sum, {0, 1, 2}, 100) == doctest::Approx(2 * 0.5 + 100 / 10.0));
  // One rank on each of three hosts, each with its own adapter.
  CHECK(seconds(sum, {0, 2, 3}, 132) == doctest::Approx(2 * 2 * 2.0 + 132 / 1.0));
  // Two on each of three hosts: both adapters of a host carry, within it is faster.
  CHECK(seconds(GatherOf(6, 20), {0, 1, 6}, 100) == doctest::Approx(1 * 0.5 + 2 * 2.0 + 100 / 2.0));
  CHECK(seconds(Call::Send({.count = 50, .dtype = DType::kU8}, 1), {0, 1, 2}, 50) == doctest::Approx(5.5));
  CHECK(seconds(Call::Send({.count = 50, .dtype = DType::kU8}, 1), {0, 2, 2}, 50) == doctest::Approx(52.0));
  CHECK(seconds(sum, {0, 1, 1}, 100) == 0.0);
}

}  // namespace ftune
