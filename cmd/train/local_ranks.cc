#include "cmd/train/local_ranks.h"

#include <memory>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "parallel/launch/core_shares.h"
#include "parallel/launch/join_world.h"
#include "parallel/launch/random_token.h"
#include "parallel/launch/tcp_store_server.h"

namespace ftune {
namespace {

constexpr char kLoopback[] = "127.0.0.1";

// What the supervisor tells goes to whoever watches the run; whether all have met the store knows.
class Watch final : public SupervisorObserver {
 public:
  Watch(int ranks, RankOutput& output, RankObserver& observer, TcpStoreServer& store, std::string prefix)
      : ranks_(ranks), output_(output), observer_(observer), store_(store), prefix_(std::move(prefix)) {}

  void OnTick() override {
    output_.Take();
    observer_.OnTick();
    for (const std::string& address : store_.TakeStrangers()) observer_.OnStranger(address);
  }
  void OnStarted(int rank, const RankProcess& process) override { observer_.OnStarted(rank, process); }
  void OnStopped(int rank, pid_t pid) override { observer_.OnStopped(rank, pid); }
  void OnContinued(int rank, pid_t pid) override { observer_.OnContinued(rank, pid); }
  void OnPulse(int rank, const Pulse& pulse) override { observer_.OnPulse(rank, pulse); }
  bool HaveMet() override {
    while (met_ < ranks_ && store_.Has(StrCat(prefix_, JoinedKey(met_)))) ++met_;
    return met_ == ranks_;
  }

 private:
  int ranks_;
  RankOutput& output_;
  RankObserver& observer_;
  TcpStoreServer& store_;
  std::string prefix_;
  int met_ = 0;  // the first so many ranks
};

}  // namespace

absl::StatusOr<std::vector<RankEnd>> LocalRanks::Run(const AttemptOrder& order, TakenSignals& signals,
                                                     RankOutput& output, RankObserver& observer) {
  const std::string prefix = StrCat(RandomToken(), "/");
  FTUNE_ASSIGN_OR_RETURN(const std::unique_ptr<TcpStoreServer> store,
                         TcpStoreServer::Start(kLoopback, 0, prefix));
  const std::vector<std::vector<int>> cores = ShareCores(AllowedCores(), ranks_);
  std::vector<RankCommand> commands;
  for (int rank = 0; rank < ranks_; ++rank) {
    commands.push_back({.arguments = ArgumentsOf(order, threads_),
                        .environment = EnvironmentOf({.rank = rank,
                                                      .ranks = ranks_,
                                                      .local_rank = rank,
                                                      .local_ranks = ranks_,
                                                      .address = kLoopback,
                                                      .port = store->port(),
                                                      .prefix = prefix}),
                        .cores = cores[rank],
                        .input = order.input,
                        .output = order.logs[rank]});
  }
  Watch watch(ranks_, output, observer, *store, prefix);
  Supervisor supervisor(order.supervisor, signals, watch);
  supervisor_ = &supervisor;
  absl::StatusOr<std::vector<RankEnd>> ends = supervisor.Run(commands);
  supervisor_ = nullptr;
  signal_ = supervisor.signal();
  return ends;
}

}  // namespace ftune
