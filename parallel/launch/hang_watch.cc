#include "parallel/launch/hang_watch.h"

#include <algorithm>

namespace ftune {
namespace {

bool InSteps(const Pulse& pulse) { return pulse.step_seconds > 0.0 && pulse.phase != kSavePhase; }

// Time goes on by itself. Memory counts outside of steps: what reads a model shows little else for a while.
bool ShowsNew(const Pulse& before, const Pulse& now) {
  Pulse same = now;
  same.still_seconds = before.still_seconds;
  if (InSteps(now)) same.resident_bytes = before.resident_bytes;
  return now.still_seconds < before.still_seconds || same != before;
}

}  // namespace

void HangWatch::OnPulse(int rank, const Pulse& pulse) {
  if (ShowsNew(pulses_[rank], pulse)) still_ = absl::ZeroDuration();
  pulses_[rank] = pulse;
}

bool HangWatch::Hangs(absl::Duration passed) {
  if (std::find(stopped_.begin(), stopped_.end(), true) != stopped_.end()) {
    still_ = absl::ZeroDuration();
    return false;
  }
  still_ += passed;
  return std::all_of(pulses_.begin(), pulses_.end(), [&](const Pulse& pulse) {
    return still_ >= kOldestPulse + (InSteps(pulse) ? limits_.in_steps : limits_.elsewhere);
  });
}

}  // namespace ftune
