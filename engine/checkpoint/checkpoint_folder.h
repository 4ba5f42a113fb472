// The checkpoints of a run: RUN/checkpoints/step-00000120.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/checkpoint/manifest.h"

namespace ftune {

// "step-00000120"
std::string CheckpointName(int64_t step);
// Of such a name; nothing where it is no such name.
std::optional<int64_t> StepOfName(const std::string& name);

struct CheckpointEntry {
  int64_t step = 0;
  std::filesystem::path folder;
};

// Folders with a checkpoint's name that have a manifest, the newest first, whether or not they are whole.
// Empty where `checkpoints` is not there.
absl::StatusOr<std::vector<CheckpointEntry>> ListCheckpoints(const std::filesystem::path& checkpoints);
// The same, and those without a manifest, which have lost it: a checkpoint gets its name last.
absl::StatusOr<std::vector<CheckpointEntry>> ListCheckpointFolders(const std::filesystem::path& checkpoints);

// A checkpoint's manifest and that its files are there in full size; their contents are not looked at.
absl::StatusOr<Manifest> InspectCheckpoint(const std::filesystem::path& folder);
// Of the file's contents. An error names the file. `on_bytes`, where there is one, is told of each piece that
// was read.
absl::Status CheckHash(const std::filesystem::path& folder, const CheckpointFile& file,
                       const std::function<void(int64_t)>& on_bytes = {});

// Makes `folder`, which the ranks have written and where all but the manifest is durable, the checkpoint of
// its step: writes the manifest, and gives the folder its name. Durable when it returns; a process that is
// killed in between leaves the checkpoint or none. One of the same step that was there is replaced.
absl::Status CommitCheckpoint(const std::filesystem::path& folder, const Manifest& manifest,
                              const std::filesystem::path& target);

// Removes a checkpoint so that no part of it can be taken for one.
absl::Status RemoveCheckpoint(const std::filesystem::path& folder);

// What is kept of the checkpoints.
struct Retention {
  int64_t keep_last = 2;              // the newest, and as many of those that are set aside
  std::optional<int64_t> keep_every;  // and those of steps that are multiples of it
  std::optional<int64_t> best_step;   // and this one
};
// Steps to be removed, the oldest first. `steps` in any order.
std::vector<int64_t> StepsToRemove(std::vector<int64_t> steps, const Retention& retention);

}  // namespace ftune
