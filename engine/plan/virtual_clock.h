// Time that does not pass: when a rank that is run dry would do what. Its ops are done one after another; so
// are the calls of a group, beside the ops where they are started and waited for later.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "base/timeline.h"
#include "engine/plan/call_seconds.h"
#include "engine/plan/device_model.h"

namespace ftune {

// Of all that was done since the clock began.
struct VirtualTimes {
  std::array<double, kOpClasses> ops{};  // seconds by class
  double recomputed = 0.0;               // seconds of ops that were done before, in `ops` too
  double calls = 0.0;                    // seconds of collectives, exposed or not
  double exposed = 0.0;                  // of those, seconds for which the rank stood still
  double disk = 0.0;                     // seconds for which it stood still for what is kept on disk
  double in_host_bytes = 0.0;            // sent by the rank to others of its host
  double network_bytes = 0.0;            // in calls of ranks on several hosts

  VirtualTimes operator-(const VirtualTimes& before) const;
};

// Transfers between stages take no time of a rank: who simulates the pipeline reckons with them.
class VirtualClock final : public OpListener, public DiskListener, public CallObserver {
 public:
  // Both outlive the clock. `spans`, where given, gets those of calls and waits.
  VirtualClock(const DeviceModel& device, HostPlaces places, std::vector<TimeSpan>* spans = nullptr)
      : device_(device), places_(places), spans_(spans) {}

  void OnOp(const OpWork& work) override;
  // One request after another.
  uint64_t OnDiskBegin(int64_t bytes) override;
  bool IsDiskDone(uint64_t ticket) override;
  void OnDiskWait(uint64_t ticket) override;
  void OnEnd(const CommSpan& span) override;

  double now() const { return now_; }  // seconds
  const VirtualTimes& times() const { return times_; }
  // Of the slowest transfer to another stage so far.
  double transfer_seconds() const { return transfer_seconds_; }

 private:
  // → the seconds for which the rank stood still.
  double Wait(double until, std::string_view name);
  void OnCall(const CommSpan& span);

  const DeviceModel& device_;
  HostPlaces places_;
  std::vector<TimeSpan>* spans_;
  double now_ = 0.0;
  VirtualTimes times_;
  double transfer_seconds_ = 0.0;
  std::map<const Communicator*, double> free_at_;
  std::map<const Communicator*, std::map<uint64_t, double>>
      done_at_;                       // of what was not waited for, by ticket
  std::vector<double> disk_done_at_;  // of the request with ticket i + 1
};

}  // namespace ftune
