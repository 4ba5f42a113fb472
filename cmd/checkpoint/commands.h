// What `ftune checkpoint` can do, one function a word.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cmd/command.h"

namespace ftune {

struct CheckpointOptions {
  std::vector<std::string> names;  // RUN or CHECKPOINT; of diff two, or a run and two steps
  std::optional<int64_t> step;
  bool force = false;
  bool superseded = false;  // of rm: those that are set aside, instead of one of a step
};

absl::StatusOr<CommandResult> ShowCheckpointList(const CheckpointOptions& options);
// Exit code 4 where a checkpoint is damaged.
absl::StatusOr<CommandResult> VerifyCheckpoints(const CheckpointOptions& options, Progress& progress);
absl::StatusOr<CommandResult> ShowCheckpoint(const CheckpointOptions& options);
absl::StatusOr<CommandResult> DiffCheckpoints(const CheckpointOptions& options);
absl::StatusOr<CommandResult> RemoveCheckpoints(const CheckpointOptions& options);

}  // namespace ftune
