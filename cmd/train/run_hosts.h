// The hosts of a recipe that names some, over SSH: their agents, what is checked before ranks are started
// there, and the ranks themselves.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cmd/recipe/load.h"
#include "cmd/report/progress.h"
#include "cmd/run_folder.h"
#include "cmd/train/host_agents.h"
#include "cmd/train/rank_place.h"
#include "parallel/launch/agent_probe.h"
#include "parallel/launch/host_list.h"

namespace ftune {

class RunHosts final : public RankPlace {
 public:
  // Of the hosts, which must be there and be able to run the recipe, launch.max_hosts at most have ranks.
  // Those that are not there are in the error; or in a warning, where launch.min_hosts are. This host comes
  // first where it is one of them. `loaded` outlives this.
  static absl::StatusOr<std::unique_ptr<RunHosts>> Connect(const LoadedRecipe& loaded,
                                                           std::vector<HostSlots> slots, Progress& progress);

  absl::StatusOr<std::vector<RankEnd>> Run(const AttemptOrder& order, TakenSignals& signals,
                                           RankOutput& output, RankObserver& observer) override;
  void EndRanks() override { agents_->EndAll(); }
  void KillAll() override { agents_->KillAll(); }
  int ranks() const override { return static_cast<int>(host_of_rank_.size()); }
  std::string HostOf(int rank) const override { return agents_->name(host_of_rank_[rank]); }
  int signal() const override { return agents_->signal(); }

  // How long ranks on hosts that were lost may still run.
  absl::Duration UntilLostAreGone() const { return agents_->UntilLostAreGone(); }
  // Connects again to what is not there, and chooses anew.
  absl::Status Reconnect(Progress& progress);
  // Has the host of a rank, which is slow, stand back from then on where enough others are left. This host
  // has the run's folder, and stays.
  void StandBack(int rank) { slow_.insert(host_of_rank_[rank]); }
  // The hosts that have ranks, with their number; and whether it is all that the recipe names.
  std::vector<HostSlots> hosts() const;
  bool complete() const { return chosen_.size() == slots_.size(); }
  // Whether the last ranks were told to save and end, since a host is back.
  bool grows() const { return grows_; }
  // Whether no ranks were started the last time since hosts that answer do not reach each other.
  bool apart() const { return apart_; }
  // The first rank writes to the run's folder: where its host does not have this one's, that is kept equal to
  // a mirror there.
  absl::Status FindFolder(const RunPaths& paths);
  // Of a run that goes on: takes from that mirror what has not come here.
  absl::Status CollectFolder();
  bool first_is_here() const { return agents_.is_here(chosen_.front()); }

 private:
  RunHosts(const LoadedRecipe& loaded, std::vector<HostSlots> slots);
  // Connects to all, and checks them: what is wrong with each of them that cannot be used.
  std::map<int, absl::Status> ConnectAll();
  void CheckPaths(std::map<int, absl::Status>& wrong);
  absl::Status Choose(const std::map<int, absl::Status>& wrong, Progress& progress);
  void LeaveOutSlow(int64_t needed, std::vector<int>& usable, Progress& progress);
  void WarnOfClocks(Progress& progress) const;
  // Of ranks that all train, and can save: ends them where a host that is missing is back.
  void LookForMissing();
  // Has the first host serve the store where all others reach it; → where, for the ranks of each host.
  absl::StatusOr<std::map<int, RankCoordinates>> OfferStore(const std::string& prefix);
  // `mirror`: where the first host has the run's folder, if that is not the same; else empty.
  HostRanks RanksOn(int host, const AttemptOrder& order, RankCoordinates store,
                    const std::string& mirror) const;
  std::vector<int> missing() const;  // that may come back

  const LoadedRecipe& loaded_;
  std::vector<HostSlots> slots_;
  HostAgents agents_;
  std::vector<int> chosen_;        // hosts that have ranks, in their order
  std::vector<int> host_of_rank_;  // of those
  std::set<int> unusable_;         // though they can be reached
  std::set<int> slow_;
  std::optional<RunPaths> mirrored_;  // the run's folder, where the first host does not have it
  bool grows_ = false;
  bool apart_ = false;
  absl::Duration last_look_;
  int looked_at_ = -1;               // last, of those that are missing
  std::optional<AgentProbe> probe_;  // of that one
};

}  // namespace ftune
