// A clock that nobody sets, and that goes on while the machine sleeps.
#pragma once

#include <time.h>

#include "absl/time/time.h"

namespace ftune {

// Since the machine was started.
inline absl::Duration MonotonicNow() {
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return absl::DurationFromTimespec(now);
}

}  // namespace ftune
