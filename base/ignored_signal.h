// Whether this process ignores a signal: one that nohup has started, say, is to outlive its terminal.
#pragma once

#include <csignal>

namespace ftune {

inline bool IsIgnored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace ftune
