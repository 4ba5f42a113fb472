// Threads that no signal comes to: signals are for the threads that wait for them.
#pragma once

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace ftune {

// While it lives, threads that this one starts, or has a library start, have all signals blocked.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

template <class Work>
std::thread QuietThread(Work work) {
  const SignalsBlocked blocked;
  return std::thread(std::move(work));
}

}  // namespace ftune
