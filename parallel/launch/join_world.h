// How the ranks of a run become one group.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parallel/comm/communicator.h"
#include "parallel/launch/rank_environment.h"

namespace ftune {

struct JoinOptions {
  RankEnvironment environment;
  absl::Duration start_timeout = absl::Minutes(30);      // until all ranks are there
  absl::Duration heartbeat_timeout = absl::Seconds(30);  // a rank that is silent for so long is lost
  // Lines of text that must be the same on all ranks: the recipe.
  std::string recipe;
};

// The group of all ranks, and where each of them is.
struct World {
  std::unique_ptr<Communicator> communicator;
  std::vector<int> host_of_rank;  // hosts are numbered in the order of their first ranks
};

// Called by all ranks; returns when all are there. Ranks of one host share memory, hosts are joined by TCP
// connections. Errors: the store cannot be served (the port is in use) or reached, a rank does not come, or
// comes with another recipe.
absl::StatusOr<World> JoinWorld(const JoinOptions& options);

// The recipe that rank 0 joins with, for another one that has none. Waits for rank 0 until the start timeout.
absl::StatusOr<std::string> RecipeOfFirstRank(const JoinOptions& options);

// For a rank that has failed before it could join: tells the others why, so that they need not wait for it.
// Waits at most kPatience, for the store or, where it serves that itself, until all have come to hear it,
// also those that have died since; `on_wait` is called once where that takes longer than a moment.
void TellOthers(const RankEnvironment& environment, const absl::Status& why,
                const std::function<void()>& on_wait);
inline constexpr absl::Duration kPatience = absl::Seconds(10);

// What a rank sets in the store when it has joined. When all have, each hears by itself of the others' ends.
std::string JoinedKey(int rank);

}  // namespace ftune
