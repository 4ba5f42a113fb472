// Ranks that are processes: forked from the test, which has no other threads then.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/strings.h"

namespace ftune {

class RankProcesses {
 public:
  static constexpr int kThrew = 98;
  // Each runs `run`, whose result is its exit code.
  RankProcesses(int ranks, const std::function<int(int rank)>& run) {
    std::fflush(nullptr);
    for (int rank = 0; rank < ranks; ++rank) {
      const pid_t pid = fork();
      if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int code = kThrew;
        try {
          code = run(rank);
        } catch (const std::exception& e) {
          std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
        }
        std::fflush(nullptr);
        _exit(code);
      }
      pids_.push_back(pid);
    }
  }
  // None outlives the test.
  ~RankProcesses() {
    for (const pid_t pid : pids_) {
      if (pid <= 0) continue;
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  void Signal(int rank, int signal) const { kill(pids_[rank], signal); }

  // Its exit code, 128 and the signal if one ended it, -1 if it still runs after `limit`.
  int Wait(int rank, absl::Duration limit = absl::Seconds(120)) {
    const absl::Time deadline = absl::Now() + limit;
    int status = 0;
    while (waitpid(pids_[rank], &status, WNOHANG) == 0) {
      if (absl::Now() > deadline) return -1;
      absl::SleepFor(absl::Milliseconds(2));
    }
    pids_[rank] = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  // Of all, which must be there: "0 0 0".
  std::string Wait() {
    std::vector<int> codes;
    for (int rank = 0; rank < static_cast<int>(pids_.size()); ++rank) codes.push_back(Wait(rank));
    return StrJoin(codes, " ");
  }

 private:
  std::vector<pid_t> pids_;
};

// Where so many processes wait for each other, once. Made before they are forked.
class ProcessGate {
 public:
  explicit ProcessGate(int processes) : processes_(processes) {
    void* page = mmap(nullptr, sizeof(*came_), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) std::abort();
    came_ = new (page) std::atomic<int>(0);
  }
  ~ProcessGate() { munmap(came_, sizeof(*came_)); }
  ProcessGate(const ProcessGate&) = delete;
  ProcessGate& operator=(const ProcessGate&) = delete;

  void Pass() {
    for (++*came_; *came_ < processes_;) absl::SleepFor(absl::Milliseconds(1));
  }

 private:
  const int processes_;
  std::atomic<int>* came_;
};

// 0 if there are none; otherwise 1, after printing them.
inline int ReportFailures(int rank, const std::vector<std::string>& failures) {
  for (const std::string& failure : failures) std::fprintf(stderr, "rank %d: %s\n", rank, failure.c_str());
  return failures.empty() ? 0 : 1;
}

}  // namespace ftune
