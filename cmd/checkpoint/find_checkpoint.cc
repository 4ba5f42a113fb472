#include "cmd/checkpoint/find_checkpoint.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "cmd/model_session.h"
#include "cmd/run_folder.h"
#include "engine/checkpoint/choose_checkpoint.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;

absl::Status NoSuchStep(const fs::path& where, int64_t step, const std::vector<CheckpointEntry>& entries) {
  std::vector<int64_t> steps;
  for (const CheckpointEntry& entry : entries) steps.push_back(entry.step);
  std::reverse(steps.begin(), steps.end());
  return UsageError({.file = where.string(),
                     .key = "--step",
                     .found = StrCat(step),
                     .expected = StrCat("the step of a checkpoint; there are: ", StrJoin(steps, ", "))});
}

absl::Status HasNone(const NamedCheckpoints& found) {
  ErrorDetail detail = {
      .file = found.checkpoints.string(),
      .message = "this run has no checkpoint yet",
      .hint = "`touch save` in its folder saves one at the next step of a run that goes on"};
  if (!found.superseded.empty()) {
    detail.message = StrCat("this run has no checkpoint but ", found.superseded.size(), " set aside");
    detail.hint = StrCat("`ftune checkpoint ls ", found.run.string(),
                         "` shows them; one that is renamed to step-… can be gone on from");
  }
  return UsageError(std::move(detail));
}

// A checkpoint that was copied elsewhere may have another name.
absl::StatusOr<CheckpointEntry> EntryOf(const fs::path& folder) {
  const fs::path named = folder.has_filename() ? folder : folder.parent_path();
  if (const std::optional<int64_t> step = StepOfName(named.filename().string())) {
    return CheckpointEntry{*step, named};
  }
  FTUNE_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(named));
  return CheckpointEntry{manifest.step, named};
}

// The files that have values: what the optimizer keeps need not be whole for them.
Manifest OnlyValues(Manifest manifest) {
  std::set<size_t> used;
  for (const auto& [name, tensor] : manifest.values) {
    for (const CheckpointSlice& slice : tensor.slices) used.insert(slice.file);
  }
  std::vector<CheckpointFile> files;
  for (const size_t file : used) files.push_back(manifest.files[file]);
  manifest.files = std::move(files);
  return manifest;
}

}  // namespace

bool IsCheckpoint(const fs::path& folder) {
  // Others have files of that name too, beside a model.
  return Exists(folder / kManifestName) && !Exists(folder / "config.json");
}

absl::StatusOr<NamedCheckpoints> ListAllNamed(const std::string& named) {
  NamedCheckpoints found;
  if (!Exists(named)) {
    return UsageError({.file = named,
                       .message = "there is no such folder",
                       .expected = "the folder of a run, or of a checkpoint"});
  }
  if (IsCheckpoint(named)) {
    FTUNE_ASSIGN_OR_RETURN(found.entries.emplace_back(), EntryOf(named));
    found.checkpoints = found.entries.front().folder.parent_path();
    return found;
  }
  const RunPaths paths(named);
  found.run = paths.folder;
  found.checkpoints = paths.checkpoints();
  if (!Exists(paths.recipe()) && !Exists(found.checkpoints)) {
    return UsageError({.file = named,
                       .message = "there is no run in this folder",
                       .expected = "the folder of a run, or of a checkpoint"});
  }
  FTUNE_ASSIGN_OR_RETURN(found.entries, ListCheckpointFolders(found.checkpoints));
  FTUNE_ASSIGN_OR_RETURN(found.superseded, ListSuperseded(found.checkpoints));
  return found;
}

absl::StatusOr<NamedCheckpoints> ListNamed(const std::string& named, std::optional<int64_t> step) {
  FTUNE_ASSIGN_OR_RETURN(NamedCheckpoints found, ListAllNamed(named));
  if (found.entries.empty()) return HasNone(found);
  if (!step) return found;
  const auto chosen = std::find_if(found.entries.begin(), found.entries.end(),
                                   [&](const CheckpointEntry& entry) { return entry.step == *step; });
  if (chosen == found.entries.end()) return NoSuchStep(found.checkpoints, *step, found.entries);
  found.entries = {CheckpointEntry(*chosen)};
  return found;
}

absl::StatusOr<std::optional<CheckpointEntry>> FindCheckpoint(
    const std::string& named, std::optional<int64_t> step,
    const std::function<void(const std::string&)>& say) {
  const CheckOptions check = {.threads = CpuCores()};
  if (IsCheckpoint(named)) {
    FTUNE_ASSIGN_OR_RETURN(const CheckpointEntry entry, EntryOf(named));
    if (step && *step != entry.step) return NoSuchStep(named, *step, {entry});
    FTUNE_ASSIGN_OR_RETURN(Manifest manifest, InspectCheckpoint(entry.folder));
    FTUNE_RETURN_IF_ERROR(CheckFiles(entry.folder, OnlyValues(std::move(manifest)), check));
    return std::optional(entry);
  }
  const fs::path checkpoints = RunPaths(named).checkpoints();
  if (!Exists(checkpoints)) {
    if (!step) return std::optional<CheckpointEntry>();
    return ListNamed(named, step).status();
  }
  FTUNE_ASSIGN_OR_RETURN(CheckpointChoice choice, ChooseCheckpoint(checkpoints, step, check));
  for (const DamagedCheckpoint& damaged : choice.damaged) {
    if (say) say(StrCat("warning: passing over a damaged checkpoint: ", std::string(damaged.why.message())));
  }
  return std::move(choice.chosen);
}

}  // namespace ftune
