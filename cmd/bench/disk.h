// How fast the ranks of this host read and write a disk.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "engine/plan/device_model.h"
#include "parallel/comm/communicator.h"

namespace ftune {

// What all ranks reach together in `folder`, each with a file of its own that is read as much as it is
// written, as the states of `memory.offload: optimizer` are. Called by all ranks alike.
absl::StatusOr<LinkModel> MeasureDisk(Communicator& ranks, const std::filesystem::path& folder);

}  // namespace ftune
