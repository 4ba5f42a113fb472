// Where a launcher has the ranks of a run: on this host, or on several.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cmd/train/rank_output.h"
#include "parallel/launch/pulse.h"
#include "parallel/launch/supervisor.h"
#include "parallel/launch/taken_signals.h"

namespace ftune {

// One attempt of a run: what its ranks are started with.
struct AttemptOrder {
  std::vector<std::string> arguments;       // of all ranks, but for the number of threads
  bool threads_given = false;               // whether the recipe says how many
  bool goes_on = false;                     // the run, with the recipe that it has
  std::string input;                        // what they read from standard input
  std::string folder;                       // where to start them
  std::vector<std::filesystem::path> logs;  // of each, on this host
  SupervisorOptions supervisor;
};

// What a launcher hears of the ranks while they run.
class RankObserver {
 public:
  virtual ~RankObserver() = default;
  virtual void OnTick() = 0;
  virtual void OnStarted(int rank, const RankProcess& process) = 0;
  virtual void OnStopped(int rank, pid_t pid) = 0;
  virtual void OnContinued(int rank, pid_t pid) = 0;
  // What a rank shows: once a second, and before its end.
  virtual void OnPulse(int rank, const Pulse& pulse) = 0;
  virtual void OnLost(const std::string& host, const std::string& why) = 0;
  // Where the ranks meet a connection from this address was refused: once for each.
  virtual void OnStranger(const std::string& address) = 0;
};

class RankPlace {
 public:
  virtual ~RankPlace() = default;
  // Runs them to their end; their ends in the order in which they came. Their output is in files by then.
  virtual absl::StatusOr<std::vector<RankEnd>> Run(const AttemptOrder& order, TakenSignals& signals,
                                                   RankOutput& output, RankObserver& observer) = 0;
  // From within Run, by its observer: all ranks are ended, as where one of them has failed.
  virtual void EndRanks() = 0;
  // From within Run, by its observer: all are killed.
  virtual void KillAll() = 0;
  virtual int ranks() const = 0;
  // Where a rank is; empty: on this host.
  virtual std::string HostOf(int rank) const = 0;
  // The last SIGINT, SIGTERM or SIGHUP that was passed on, or 0.
  virtual int signal() const = 0;
};

// The environment of a rank, as any launcher's, and what ftune adds.
struct RankCoordinates {
  int rank = 0, ranks = 1, local_rank = 0, local_ranks = 1;
  std::string address;  // of the store, and its port
  int port = 0;
  std::string prefix;
  std::string host_address;  // see RankEnvironment
};
std::vector<std::string> EnvironmentOf(const RankCoordinates& coordinates);

// The arguments of a rank that has `threads`.
std::vector<std::string> ArgumentsOf(const AttemptOrder& order, int64_t threads);

}  // namespace ftune
