#include "engine/checkpoint/choose_checkpoint.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<Manifest> CheckWhole(const CheckpointEntry& entry, const CheckOptions& options) {
  FTUNE_ASSIGN_OR_RETURN(Manifest manifest, InspectCheckpoint(entry.folder));
  if (manifest.step != entry.step) {
    return DataError({.file = (entry.folder / kManifestName).string(),
                      .key = "step",
                      .found = StrCat(manifest.step),
                      .expected = StrCat(entry.step, ", as the folder's name says")});
  }
  FTUNE_RETURN_IF_ERROR(CheckFiles(entry.folder, manifest, options));
  return manifest;
}

bool NeedsAnotherVersion(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = DetailOf(status);
  return detail && detail->key == "version";
}

std::string StepsOf(const std::vector<CheckpointEntry>& entries) {
  std::vector<std::string> steps;
  for (const CheckpointEntry& entry : entries) steps.push_back(StrCat(entry.step));
  return steps.empty() ? "none" : StrJoin(steps, ", ");
}

absl::StatusOr<CheckpointChoice> ChooseStep(const fs::path& checkpoints,
                                            const std::vector<CheckpointEntry>& entries, int64_t step,
                                            const CheckOptions& options) {
  const auto entry =
      std::find_if(entries.begin(), entries.end(), [&](const CheckpointEntry& e) { return e.step == step; });
  if (entry == entries.end()) {
    return UsageError({.file = checkpoints.string(),
                       .key = "--step",
                       .found = StrCat(step),
                       .expected = StrCat("the step of a checkpoint; there are: ", StepsOf(entries))});
  }
  FTUNE_ASSIGN_OR_RETURN(Manifest manifest, CheckWhole(*entry, options));
  return CheckpointChoice{.chosen = *entry, .manifest = std::move(manifest)};
}

absl::Status NoneIsWhole(const fs::path& checkpoints, const std::vector<DamagedCheckpoint>& damaged) {
  std::vector<std::string> reasons;
  for (const DamagedCheckpoint& one : damaged) {
    reasons.push_back(StrCat("step ", one.entry.step, ": ", std::string(one.why.message())));
  }
  return DataError({.file = checkpoints.string(),
                    .message = StrCat("no checkpoint of this run is whole: ", StrJoin(reasons, "; ")),
                    .hint = "bring back the files from a copy, or begin anew with `ftune train --force`"});
}

}  // namespace

absl::Status CheckFiles(const fs::path& folder, const Manifest& manifest, const CheckOptions& options) {
  const size_t count = manifest.files.size();
  std::vector<absl::Status> results(count);
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  int64_t done = 0;  // under the mutex
  const int64_t total = manifest.bytes();
  const auto on_bytes = [&](int64_t bytes) {
    const std::lock_guard lock(mutex);
    done += bytes;
    if (options.on_progress) options.on_progress(done, total);
  };
  const auto work = [&] {
    for (size_t i; (i = next++) < count;) results[i] = CheckHash(folder, manifest.files[i], on_bytes);
  };
  std::vector<std::thread> threads;
  const size_t wanted = std::min<size_t>(std::max(1, options.threads), count);
  for (size_t i = 1; i < wanted; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) FTUNE_RETURN_IF_ERROR(result);
  return absl::OkStatus();
}

absl::StatusOr<CheckpointChoice> ChooseCheckpoint(const fs::path& checkpoints, std::optional<int64_t> step,
                                                  const CheckOptions& options) {
  FTUNE_ASSIGN_OR_RETURN(const std::vector<CheckpointEntry> entries, ListCheckpointFolders(checkpoints));
  if (step) return ChooseStep(checkpoints, entries, *step, options);
  CheckpointChoice choice;
  for (const CheckpointEntry& entry : entries) {
    absl::StatusOr<Manifest> manifest = CheckWhole(entry, options);
    if (manifest.ok()) {
      choice.chosen = entry;
      choice.manifest = *std::move(manifest);
      return choice;
    }
    if (NeedsAnotherVersion(manifest.status())) return manifest.status();
    choice.damaged.push_back({entry, manifest.status()});
  }
  if (!choice.damaged.empty()) return NoneIsWhole(checkpoints, choice.damaged);
  return choice;
}

}  // namespace ftune
