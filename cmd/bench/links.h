// How fast the ranks of this host exchange data.
#pragma once

#include "absl/status/statusor.h"
#include "engine/plan/device_model.h"
#include "parallel/comm/communicator.h"

namespace ftune {

// The latency and the bandwidth with which the formulas of ring algorithms tell how long the group's
// all-reduces, reduce-scatters and all-gathers take, small ones and large. Called by all ranks alike, of
// which there are two or more.
absl::StatusOr<LinkModel> MeasureCollectives(Communicator& group);

// The same over TCP connections within this host, between two of the ranks; the others wait.
absl::StatusOr<LinkModel> MeasureLoopback(Communicator& ranks);

}  // namespace ftune
