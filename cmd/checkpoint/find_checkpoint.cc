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

absl::StatusOr<std::vector<fs::path>> ListSuperseded(const fs::path& checkpoints) {
  std::vector<fs::path> found;
  if (!Exists(checkpoints)) return found;
  FTUNE_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, ListFolder(checkpoints));
  for (const fs::path& entry : entries) {
    const std::string name = entry.filename().string();
    const size_t step = name.find("-step-");
    if (!name.starts_with("superseded-") || step == std::string::npos) continue;
    if (StepOfName(name.substr(step + 1)) && Exists(entry / kManifestName)) found.push_back(entry);
  }
  std::sort(found.begin(), found.end());
  return found;
}

absl::StatusOr<NamedCheckpoints> ListNamed(const std::string& named, std::optional<int64_t> step) {
  NamedCheckpoints found;
  if (!Exists(named)) {
    return UsageError({.file = named,
                       .message = "there is no such folder",
                       .expected = "the folder of a run, or of a checkpoint"});
  }
  if (IsCheckpoint(named)) {
    FTUNE_ASSIGN_OR_RETURN(found.entries.emplace_back(), EntryOf(named));
    found.checkpoints = found.entries.front().folder.parent_path();
  } else {
    const RunPaths paths(named);
    found.run = paths.folder;
    found.checkpoints = paths.checkpoints();
    if (!Exists(paths.recipe()) && !Exists(found.checkpoints)) {
      return UsageError({.file = named,
                         .message = "there is no run in this folder",
                         .expected = "the folder of a run, or of a checkpoint"});
    }
    FTUNE_ASSIGN_OR_RETURN(found.entries, ListCheckpointFolders(found.checkpoints));
  }
  if (found.entries.empty()) {
    return UsageError(
        {.file = found.checkpoints.string(),
         .message = "this run has no checkpoint yet",
         .hint = "`touch save` in its folder saves one at the next step of a run that goes on"});
  }
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
