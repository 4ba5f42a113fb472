// Ends a process that is stopped for too long.
#pragma once

#include <condition_variable>
#include <ctime>
#include <mutex>
#include <thread>

#include "absl/time/time.h"

namespace ftune {

// While it lives, the kernel kills this process, and with it those that die with it, when it has not run for
// `limit` (SIGSTOP, a debugger): nobody else may be there to do so. Processes that it starts have no limit.
class StopLimit {
 public:
  explicit StopLimit(absl::Duration limit);
  ~StopLimit();
  StopLimit(const StopLimit&) = delete;
  StopLimit& operator=(const StopLimit&) = delete;

 private:
  void PutOff();
  // The thread: puts the timer off for as long as this process runs.
  void Run();

  const absl::Duration limit_;
  const absl::Duration wait_;  // between two times
  timer_t timer_ = {};
  bool has_timer_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace ftune
