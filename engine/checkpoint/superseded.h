// Checkpoints that a run which went back has set aside: RUN/checkpoints/superseded-ATTEMPT-step-00000120.
// None of them is taken for one of the line that goes on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_folder.h"

namespace ftune {

struct SupersededCheckpoint {
  int attempt = 0;  // that has set it aside
  CheckpointEntry entry;
};

// Whole or not, by attempt, then by step. None where there is no such folder.
absl::StatusOr<std::vector<SupersededCheckpoint>> ListSuperseded(const std::filesystem::path& checkpoints);

// Sets the checkpoints after `step` aside, whole or not. Gives the steps, in order.
absl::StatusOr<std::vector<int64_t>> SetAsideAfter(const std::filesystem::path& checkpoints, int64_t step,
                                                   int attempt);

}  // namespace ftune
