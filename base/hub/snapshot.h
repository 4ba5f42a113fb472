// A repository's files at a revision, here: from the cache where they are in it, else from the hub.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/hub/hub_reporter.h"
#include "base/hub/repo.h"
#include "base/hub/settings.h"

namespace ftune {

struct SnapshotRequest {
  Repo repo;
  std::string revision = "main";
  // Which of the repository's paths are wanted. An error where what is wanted is not among them.
  std::function<absl::StatusOr<std::vector<std::string>>(const std::vector<std::string>& paths)> choose;
  // Where others filled the cache, it does not say what the repository has: whether those of its paths that
  // are here are surely all that is wanted. Null: that cannot be told.
  std::function<bool(const std::vector<std::string>& paths)> complete;
};

struct Snapshot {
  std::filesystem::path folder;
  std::string commit;
  std::vector<std::string> files;  // those chosen, relative to `folder`
};

// The network is used where the cache does not have what is wanted, and only then; a branch that has moved
// since is not noticed. Where the hub cannot be reached, what others left in the cache is taken if `choose`
// finds all it wants in it.
absl::StatusOr<Snapshot> OpenSnapshot(const SnapshotRequest& request, const HubSettings& settings,
                                      const HubReporter& reporter);

}  // namespace ftune
