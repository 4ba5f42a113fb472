// Checkpoints by what a command line or a recipe names: a checkpoint's folder, or a run's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/superseded.h"

namespace ftune {

// Whether the folder is a checkpoint's.
bool IsCheckpoint(const std::filesystem::path& folder);

// A run's checkpoints, the newest first; or the one checkpoint that was named itself.
struct NamedCheckpoints {
  std::filesystem::path run;          // empty: a checkpoint was named
  std::filesystem::path checkpoints;  // the folder that they are in
  std::vector<CheckpointEntry> entries;
  std::vector<SupersededCheckpoint> superseded;  // of a run
};
// All that there are, whole or not; there may be none. Errors: there is no such folder, no run in it.
absl::StatusOr<NamedCheckpoints> ListAllNamed(const std::string& named);
// With `step` that one alone. Errors: also where there is no checkpoint, or none of the step.
absl::StatusOr<NamedCheckpoints> ListNamed(const std::string& named, std::optional<int64_t> step);

// A checkpoint that is whole, for its values: the folder that is named, or a run's newest, or that of `step`.
// Nothing where what is named is neither a checkpoint nor a run with checkpoints. `say` is told of damaged
// ones that are passed over.
absl::StatusOr<std::optional<CheckpointEntry>> FindCheckpoint(
    const std::string& named, std::optional<int64_t> step,
    const std::function<void(const std::string&)>& say);

}  // namespace ftune
