// SIGINT, SIGTERM and, where it is not ignored, SIGHUP as a request to stop at the next good moment; a second
// one ends the process at once.
// SIGUSR1 as a request to save.
// What comes with the first, from one who signals a process and its whole group, say, is no second one.
#pragma once

#include <atomic>
#include <csignal>
#include <thread>

namespace ftune {

// Made before other threads start: they inherit its signal mask. While it lives, these signals go to its
// own thread.
class StopSignal {
 public:
  // `announces`: says on standard error what a signal does.
  explicit StopSignal(bool announces);
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // The first signal received, or 0.
  int received() const { return received_.load(std::memory_order_relaxed); }
  // Whether a save was asked for since this was called last.
  bool TakeSave() { return save_.exchange(false); }

 private:
  void Wait();

  bool announces_;
  sigset_t signals_{};
  sigset_t before_{};
  std::atomic<int> received_{0};
  std::atomic<bool> save_{false};
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace ftune
