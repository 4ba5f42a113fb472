// Whether the ranks of a run stand still, by what they show.
#pragma once

#include <vector>

#include "absl/time/time.h"
#include "parallel/launch/pulse.h"

namespace ftune {

// What is known of a rank may be so old: pulses are looked at once a second, and come from other hosts.
inline constexpr absl::Duration kOldestPulse = absl::Seconds(2);

struct HangLimits {
  absl::Duration in_steps = absl::InfiniteDuration();
  // Until a rank has made its first whole step, and while it saves.
  absl::Duration elsewhere = absl::InfiniteDuration();
};

class HangWatch {
 public:
  HangWatch(int ranks, const HangLimits& limits) : limits_(limits), pulses_(ranks), stopped_(ranks, false) {}

  void OnPulse(int rank, const Pulse& pulse);
  // By a signal, as somebody wants it: meanwhile no time counts.
  void OnStopped(int rank) { stopped_[rank] = true; }
  void OnContinued(int rank) { stopped_[rank] = false; }

  // Lets time pass in which this process has run; whether no rank has shown anything new for longer, by
  // kOldestPulse, than where it is allows, of each.
  bool Hangs(absl::Duration passed);
  // For how long none has.
  absl::Duration still() const { return still_; }

 private:
  HangLimits limits_;
  std::vector<Pulse> pulses_;
  std::vector<bool> stopped_;
  absl::Duration still_;
};

}  // namespace ftune
