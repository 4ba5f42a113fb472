// The timeline of a step on all ranks, as a file for Chrome's trace viewer.
#pragma once

#include <filesystem>

#include "absl/status/status.h"
#include "base/timeline.h"
#include "engine/train/reports.h"
#include "parallel/comm/communicator.h"

namespace ftune {

// Has `timeline`, which outlives the group and those split off from it later, show what the group does.
void ShowCalls(Timeline& timeline, Communicator& group);

// Called by all ranks of the world, the first of which writes the file.
absl::Status WriteTrace(const TraceReport& report, Communicator& world, const std::filesystem::path& path);

}  // namespace ftune
