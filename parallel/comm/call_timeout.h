// How long a rank waits for another within a call.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

#include "absl/time/time.h"

namespace ftune {

// One for a group and all that are split off from it. Thread-safe.
class CallTimeout {
 public:
  explicit CallTimeout(absl::Duration timeout = absl::InfiniteDuration()) { set(timeout); }

  absl::Duration get() const {
    const int64_t nanoseconds = nanoseconds_;
    return nanoseconds == kInfinite ? absl::InfiniteDuration() : absl::Nanoseconds(nanoseconds);
  }
  void set(absl::Duration timeout) { nanoseconds_ = absl::ToInt64Nanoseconds(timeout); }

 private:
  static constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max();  // as absl converts it

  std::atomic<int64_t> nanoseconds_;
};

}  // namespace ftune
