// The hosts of a recipe that names some, over SSH: their agents, what is checked before ranks are started
// there, and the ranks themselves.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cmd/recipe/load.h"
#include "cmd/report/progress.h"
#include "cmd/run_folder.h"
#include "cmd/train/rank_place.h"
#include "parallel/launch/agents.h"
#include "parallel/launch/host_list.h"

namespace ftune {

class RunHosts final : public RankPlace {
 public:
  // All hosts must be there and be able to run the recipe; those that cannot are in the error. This host
  // comes first where it is one of them. `loaded` outlives this.
  static absl::StatusOr<std::unique_ptr<RunHosts>> Connect(const LoadedRecipe& loaded,
                                                           std::vector<HostSlots> slots, Progress& progress);

  absl::StatusOr<std::vector<RankEnd>> Run(const AttemptOrder& order, TakenSignals& signals,
                                           RankOutput& output, RankObserver& observer) override;
  int ranks() const override { return static_cast<int>(host_of_rank_.size()); }
  std::string HostOf(int rank) const override { return agents_->name(host_of_rank_[rank]); }
  int signal() const override { return agents_->signal(); }

  // Connects again to what is lost. Waits until ranks on lost hosts must have ended.
  absl::Status Reconnect(Progress& progress);
  // The first rank writes to the run's folder, so its host must have this one's.
  absl::Status CheckSeesFolder(const RunPaths& paths);
  bool first_is_here() const { return local_.front(); }

 private:
  RunHosts(const LoadedRecipe& loaded, std::vector<HostSlots> slots, std::vector<bool> local);
  // Connects to all, and checks them.
  absl::Status Prepare(Progress& progress);
  absl::Status Check(Progress& progress);
  absl::Status CheckFacts(Progress& progress) const;
  absl::Status CheckPaths();
  // Has the first host serve the store where all others reach it; → its address and port.
  absl::StatusOr<RankCoordinates> OfferStore(const std::string& prefix);
  std::vector<std::string> StoreAddresses() const;
  HostRanks RanksOn(int host, const AttemptOrder& order, RankCoordinates store) const;
  std::vector<int> all() const;
  int RanksOf(int host) const;

  const LoadedRecipe& loaded_;
  std::vector<HostSlots> slots_;
  std::vector<bool> local_;
  std::unique_ptr<Agents> agents_;
  std::vector<int> host_of_rank_;
};

}  // namespace ftune
