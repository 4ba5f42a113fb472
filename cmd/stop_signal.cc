#include "cmd/stop_signal.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>

#include "base/ignored_signal.h"

namespace ftune {

StopSignal::StopSignal(bool announces) : announces_(announces) {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGTERM);
  if (!IsIgnored(SIGHUP)) sigaddset(&signals_, SIGHUP);
  sigaddset(&signals_, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  thread_ = std::thread([this] { Wait(); });
}

StopSignal::~StopSignal() {
  done_ = true;
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void StopSignal::Wait() {
  using Clock = std::chrono::steady_clock;
  constexpr timespec kPoll = {.tv_sec = 0, .tv_nsec = 100'000'000};
  constexpr std::chrono::milliseconds kTogether(500);
  Clock::time_point first;
  while (!done_) {
    const int signal = sigtimedwait(&signals_, nullptr, &kPoll);
    if (signal <= 0) continue;
    if (signal == SIGUSR1) {
      save_ = true;
      continue;
    }
    if (received_ != 0) {
      if (Clock::now() - first < kTogether) continue;
      _exit(128 + signal);
    }
    first = Clock::now();
    received_ = signal;
    if (!announces_) continue;
    std::fputs("\nftune: stopping after this microbatch, then saving; a second signal ends at once\n",
               stderr);
  }
}

}  // namespace ftune
