// Starts the ranks of this host and sees them to their end: signals are passed on, and when one fails the
// others are ended too. When it returns, none of them is left.
#pragma once

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parallel/launch/rank_process.h"

namespace ftune {

// How a rank ended.
struct RankEnd {
  int rank = 0;
  pid_t pid = -1;
  int wait_status = 0;       // as waitpid has it
  std::string report;        // what it wrote to kReportDescriptor
  bool was_told = false;     // to end, because another one had failed before
  bool stood_still = false;  // for SupervisorOptions::stopped_timeout, and was killed
};

struct SupervisorOptions {
  // Exit statuses that are no failure.
  std::vector<int> good = {0};
  // What the others have, when one has failed, to find out and say so; then they get SIGTERM. They have
  // nothing to say before they have met, and get it at once.
  absl::Duration until_term = absl::Seconds(2);
  // After SIGTERM; then they get SIGKILL. One that is stopped, which could do nothing, gets it at once.
  absl::Duration until_kill = absl::Seconds(5);
  // For how long a rank may be stopped (SIGSTOP) before the ranks have met; later they notice themselves.
  absl::Duration stopped_timeout = absl::InfiniteDuration();
};

// What somebody wants to hear of the ranks, and knows of them.
class SupervisorObserver {
 public:
  virtual ~SupervisorObserver() = default;
  // Ten times a second at least, and when all have ended.
  virtual void OnTick() = 0;
  // By somebody else than the supervisor; and that it goes on again.
  virtual void OnStopped(int rank, pid_t pid) = 0;
  virtual void OnContinued(int rank, pid_t pid) = 0;
  // Whether the ranks hear of each other's ends by themselves.
  virtual bool HaveMet() = 0;
};

class Supervisor {
 public:
  // Of the program's main thread. While it lives, SIGINT, SIGTERM, SIGHUP (unless it is ignored), SIGTSTP and
  // SIGCHLD come to it alone: it is made before threads that do not block them.
  Supervisor(SupervisorOptions options, SupervisorObserver& observer);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // One command a rank. Their ends, in the order in which they came. An error where one cannot be started.
  absl::StatusOr<std::vector<RankEnd>> Run(const std::vector<RankCommand>& commands);

  // The last SIGINT, SIGTERM or SIGHUP that was passed on, or 0.
  int signal() const { return signal_; }

 private:
  struct Rank;
  void Wait();
  void TakeSignals();
  // SIGTSTP, which a terminal sends this process alone: the ranks, which have groups of their own, stop with
  // it and go on with it.
  void StopAll();
  void SignalGroups(int signal);
  void Read(Rank& rank);
  void Reap(int number);
  void Reap();
  void EndStopped();
  void EndOthers();
  bool IsGood(int wait_status) const;

  SupervisorOptions options_;
  SupervisorObserver& observer_;
  sigset_t before_{};
  Descriptor signals_;
  std::vector<Rank> ranks_;
  std::vector<RankEnd> ends_;
  int signal_ = 0;
  absl::Duration clock_;                   // time in which this process was stopped itself does not count
  std::optional<absl::Duration> term_at_;  // when the others get SIGTERM: one has failed
  bool sent_term_ = false;
};

// "was killed by signal 9 (SIGKILL)", "ended with exit status 4".
std::string DescribeEnd(int wait_status);

}  // namespace ftune
