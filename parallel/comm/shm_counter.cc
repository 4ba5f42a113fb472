#include "parallel/comm/shm_counter.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

#include "absl/time/clock.h"

namespace ftune {
namespace {

// Lets the core's other thread run.
void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void ShmCounter::Post(uint32_t steps) {
  value_.fetch_add(steps);
  if (sleepers_.load() > 0) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&value_), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

bool ShmCounter::Spin(uint32_t target, absl::Duration limit) const {
  const absl::Time end = absl::Now() + limit;
  while (!Reached(target)) {
    for (int i = 0; i < 16; ++i) Pause();
    if (absl::Now() >= end) return false;
  }
  return true;
}

void ShmCounter::Sleep(uint32_t target, absl::Duration limit) {
  sleepers_.fetch_add(1);
  const uint32_t seen = value_.load();
  if (static_cast<int32_t>(seen - target) < 0) {
    const timespec time = absl::ToTimespec(limit);
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&value_), FUTEX_WAIT, seen, &time, nullptr, 0);
  }
  sleepers_.fetch_sub(1);
}

}  // namespace ftune
