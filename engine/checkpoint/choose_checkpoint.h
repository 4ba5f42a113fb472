// The checkpoint that a run goes on from: the newest whole one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/manifest.h"

namespace ftune {

struct CheckOptions {
  int threads = 1;
  // How much of the checkpoint's bytes has been read; called by one thread at a time.
  std::function<void(int64_t done, int64_t total)> on_progress = {};
};

// That the files of a checkpoint are what was written: their contents, several at a time. The error is that
// of the first file, in the manifest's order, that is not.
absl::Status CheckFiles(const std::filesystem::path& folder, const Manifest& manifest,
                        const CheckOptions& options = {});

struct DamagedCheckpoint {
  CheckpointEntry entry;
  absl::Status why;
};

struct CheckpointChoice {
  std::optional<CheckpointEntry> chosen;   // none: there is no checkpoint yet
  Manifest manifest;                       // of the chosen one
  std::vector<DamagedCheckpoint> damaged;  // newer ones, the newest first
};

// The newest that is whole; with `step` that one. An error where that is not there, or not whole; where there
// are checkpoints but none is whole; and where the newest needs another version of ftune, which is no damage.
absl::StatusOr<CheckpointChoice> ChooseCheckpoint(const std::filesystem::path& checkpoints,
                                                  std::optional<int64_t> step,
                                                  const CheckOptions& options = {});

}  // namespace ftune
