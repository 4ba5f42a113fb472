// Starts the ranks of this host and sees them to their end: signals are passed on, and when one fails the
// others are ended too. When it returns, none of them is left.
#pragma once

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parallel/launch/oom_kills.h"
#include "parallel/launch/rank_process.h"
#include "parallel/launch/taken_signals.h"

namespace ftune {

// How a rank ended.
struct RankEnd {
  int rank = 0;
  std::string host;  // where it is not this one
  pid_t pid = -1;
  int wait_status = 0;         // as waitpid has it
  std::string report;          // what it wrote to kReportDescriptor
  bool was_told = false;       // to end, because another one had failed before
  bool stood_still = false;    // for SupervisorOptions::stopped_timeout, and was killed
  bool out_of_memory = false;  // the kernel has killed it for that
  std::string lost;            // why nobody knows how it ended: its host cannot be reached. Else empty
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
  // A descriptor that is readable when OnTick should come at once; none: -1.
  virtual int wakes() const { return -1; }
  // Called as they come. `number` is the place of its command.
  virtual void OnStarted(int /*number*/, const RankProcess& /*process*/) {}
  // What a rank shows: once a second, and before its end.
  virtual void OnPulse(int /*number*/, const Pulse& /*pulse*/) {}
  virtual void OnEnd(const RankEnd& /*end*/) {}
};

class Supervisor {
 public:
  // Of the program's main thread; `signals` outlive it.
  Supervisor(SupervisorOptions options, TakenSignals& signals, SupervisorObserver& observer);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // One command a rank. Their ends, in the order in which they came. An error where one cannot be started.
  absl::StatusOr<std::vector<RankEnd>> Run(const std::vector<RankCommand>& commands);

  // The last SIGINT, SIGTERM or SIGHUP that was passed on, or 0.
  int signal() const { return signal_; }

  // What somebody on another host asks for, from within OnTick: a signal for the ranks; that all stop, or go
  // on (SIGSTOP, SIGCONT); that all end, as where one of them has failed; that they are killed at once.
  void Pass(int signal);
  void SignalGroups(int signal);
  void EndAll();
  void KillAll();

 private:
  struct Rank;
  void Wait();
  void TakeSignals();
  // SIGTSTP, which a terminal sends this process alone: the ranks, which have groups of their own, stop with
  // it and go on with it.
  void StopAll();
  void Read(Rank& rank);
  void Reap(int number);
  void Reap();
  void LookAtAll();
  void LookAt(int number);
  void EndStopped();
  void EndOthers();
  bool IsGood(int wait_status) const;

  SupervisorOptions options_;
  TakenSignals& signals_;
  SupervisorObserver& observer_;
  OomKills oom_kills_;
  std::vector<Rank> ranks_;
  std::vector<RankEnd> ends_;
  int signal_ = 0;
  absl::Duration clock_;                   // time in which this process was stopped itself does not count
  absl::Duration next_look_;               // at all ranks' pulses
  std::optional<absl::Duration> term_at_;  // when the others get SIGTERM: one has failed
  bool sent_term_ = false;
};

// "was killed by signal 9 (SIGKILL)", "ended with exit status 4".
std::string DescribeEnd(int wait_status);

}  // namespace ftune
