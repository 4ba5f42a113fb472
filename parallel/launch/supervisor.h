// Starts the ranks of this host and sees them to their end: signals are passed on, and when one fails the
// others are ended too. When it returns, none of them is left.
#pragma once

#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parallel/launch/rank_process.h"

namespace ftune {

// How a rank ended.
struct RankEnd {
  int rank = 0;
  int wait_status = 0;    // as waitpid has it
  std::string report;     // what it wrote to kReportDescriptor
  bool was_told = false;  // to end, because another one had failed before
};

struct SupervisorOptions {
  // Exit statuses that are no failure.
  std::vector<int> good = {0};
  // What the others have, when one has failed, to find out and say so; then they get SIGTERM.
  absl::Duration until_term = absl::Seconds(2);
  // After SIGTERM; then they get SIGKILL.
  absl::Duration until_kill = absl::Seconds(5);
};

class Supervisor {
 public:
  // `output` takes what a rank writes to standard error, as it comes.
  using Output = std::function<void(int rank, std::string_view bytes)>;

  // Of the program's main thread. While it lives, SIGINT, SIGTERM and SIGCHLD come to it alone: it is made
  // before threads that do not block them.
  Supervisor(SupervisorOptions options, Output output);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // One command a rank. Their ends, in the order in which they came. An error where one cannot be started.
  absl::StatusOr<std::vector<RankEnd>> Run(const std::vector<RankCommand>& commands);

  // The last SIGINT or SIGTERM that was passed on, or 0.
  int signal() const { return signal_; }

 private:
  struct Rank;
  void Wait(std::vector<Rank>& ranks);
  void PassOnSignals(std::vector<Rank>& ranks);
  void Read(int number, Rank& rank);
  void Reap(std::vector<Rank>& ranks, std::vector<RankEnd>& ends);
  void EndOthers(std::vector<Rank>& ranks);
  bool IsGood(int wait_status) const;

  SupervisorOptions options_;
  Output output_;
  sigset_t before_{};
  Descriptor signals_;
  int signal_ = 0;
  std::optional<absl::Time> failed_;  // when the first one did
  bool sent_term_ = false;
};

// "was killed by signal 9 (SIGKILL)", "ended with exit status 4".
std::string DescribeEnd(int wait_status);

}  // namespace ftune
