#include "parallel/launch/taken_signals.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/ignored_signal.h"

namespace ftune {

TakenSignals::TakenSignals() {
  std::signal(SIGCHLD, SIG_DFL);  // ignored, it would leave nothing to wait for
  sigset_t taken;
  sigemptyset(&taken);
  for (const int signal : {SIGINT, SIGTERM, SIGTSTP, SIGCHLD, SIGUSR1}) sigaddset(&taken, signal);
  if (!IsIgnored(SIGHUP)) sigaddset(&taken, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &taken, &before_);
  signals_ = Descriptor(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
}

TakenSignals::~TakenSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::optional<int> TakenSignals::Next() {
  signalfd_siginfo info;
  if (read(signals_.get(), &info, sizeof(info)) != sizeof(info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

std::optional<int> EndingSignal() {
  sigset_t pending;
  sigpending(&pending);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (sigismember(&pending, signal) == 1) return signal;
  }
  return std::nullopt;
}

void StopAsTerminalAsks() {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  raise(SIGTSTP);
  pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
}

}  // namespace ftune
