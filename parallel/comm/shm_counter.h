// A counter in shared memory that one process advances and others sleep on.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace ftune {

// All zero is a counter at zero. It wraps round: who waits is never half a round behind.
class alignas(64) ShmCounter {
 public:
  // What was written before is seen by who sees the count.
  void Post(uint32_t steps = 1);
  bool Reached(uint32_t target) const {
    return static_cast<int32_t>(value_.load(std::memory_order_acquire) - target) >= 0;
  }
  // Whether it is reached within `limit`, for which this holds the core.
  bool Spin(uint32_t target, absl::Duration limit) const;
  // Until it is reached, or for `limit`; may return early.
  void Sleep(uint32_t target, absl::Duration limit);

 private:
  std::atomic<uint32_t> value_ = 0;
  std::atomic<uint32_t> sleepers_ = 0;
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

}  // namespace ftune
