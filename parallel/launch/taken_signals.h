// The signals that a process which watches ranks takes care of, in the order in which they come.
#pragma once

#include <csignal>
#include <optional>

#include "base/descriptor.h"

namespace ftune {

// While it lives SIGINT, SIGTERM, SIGHUP (unless it is ignored), SIGTSTP, SIGUSR1 and SIGCHLD come to it
// alone. Made by the program's main thread, before threads that do not block them.
class TakenSignals {
 public:
  TakenSignals();
  ~TakenSignals();
  TakenSignals(const TakenSignals&) = delete;
  TakenSignals& operator=(const TakenSignals&) = delete;

  // The next one that has come; never waits.
  std::optional<int> Next();
  // Readable when one has.
  int descriptor() const { return signals_.get(); }

 private:
  sigset_t before_{};
  Descriptor signals_;
};

// SIGINT, SIGTERM or SIGHUP, where one has come that TakenSignals has not given out yet: it stays there.
std::optional<int> EndingSignal();

// Stops this process as SIGTSTP does where nobody takes care of it, so that a shell sees what it expects;
// returns when it goes on. It does not stop where no shell could have it go on again (an orphaned process
// group).
void StopAsTerminalAsks();

}  // namespace ftune
