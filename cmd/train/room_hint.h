// What to do where a run's folder is on a full disk.
#pragma once

#include <filesystem>

#include "absl/status/status.h"

namespace ftune {

// The same, but of a full disk with the hint of how to have room: checkpoints take the most.
absl::Status WithRoomHint(const absl::Status& status, const std::filesystem::path& run);

}  // namespace ftune
