#include "parallel/launch/stop_limit.h"

#include <algorithm>
#include <csignal>

#include "base/quiet_thread.h"

namespace ftune {
namespace {

constexpr absl::Duration kLongestWait = absl::Seconds(1);  // until the timer is put off again

}  // namespace

StopLimit::StopLimit(absl::Duration limit) : limit_(limit), wait_(std::min(limit / 4, kLongestWait)) {
  sigevent expires = {};
  expires.sigev_notify = SIGEV_SIGNAL;
  // The one signal that ends a process which is stopped.
  expires.sigev_signo = SIGKILL;
  // Where the system has no timer left, a process that is stopped stays so.
  has_timer_ = timer_create(CLOCK_MONOTONIC, &expires, &timer_) == 0;
  if (!has_timer_) return;
  PutOff();
  thread_ = QuietThread([this] { Run(); });
}

StopLimit::~StopLimit() {
  if (!has_timer_) return;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  wake_.notify_all();
  thread_.join();
  timer_delete(timer_);
}

void StopLimit::PutOff() {
  const itimerspec after = {.it_interval = {}, .it_value = absl::ToTimespec(limit_ + wait_)};
  timer_settime(timer_, /*flags=*/0, &after, nullptr);
}

void StopLimit::Run() {
  std::unique_lock lock(mutex_);
  while (!done_) {
    wake_.wait_for(lock, absl::ToChronoNanoseconds(wait_), [this] { return done_; });
    PutOff();
  }
}

}  // namespace ftune
