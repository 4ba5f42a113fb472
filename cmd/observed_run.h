// A run as another process finds it, by what lies in its folder.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "cmd/watch/run_status.h"

namespace ftune {

// By its status.json; where there is none that can be read, by its log. A run whose process has ended without
// a word is kGone. An error where there is no run.
absl::StatusOr<RunStatus> ObserveRun(const std::filesystem::path& folder);

// Whether the process that leads it is one of this host, and still runs.
bool LeaderIsHere(const LeaderStatus& leader);

}  // namespace ftune
