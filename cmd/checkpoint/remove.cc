// ftune checkpoint rm

#include <algorithm>

#include "base/error.h"
#include "base/strings.h"
#include "cmd/checkpoint/commands.h"
#include "cmd/checkpoint/find_checkpoint.h"
#include "cmd/model_session.h"
#include "cmd/run_folder.h"
#include "engine/checkpoint/choose_checkpoint.h"

namespace ftune {
namespace {

bool IsWhole(const CheckpointEntry& entry) {
  const absl::StatusOr<Manifest> manifest = InspectCheckpoint(entry.folder);
  return manifest.ok() && CheckFiles(entry.folder, *manifest, {.threads = CpuCores()}).ok();
}

// A run that goes on needs one that is whole.
absl::Status CheckAnotherIsWhole(const std::vector<CheckpointEntry>& all, const CheckpointEntry& doomed) {
  const bool another = std::any_of(all.begin(), all.end(), [&](const CheckpointEntry& entry) {
    return entry.step != doomed.step && IsWhole(entry);
  });
  if (another || !IsWhole(doomed)) return absl::OkStatus();
  return UsageError({.file = doomed.folder.string(),
                     .key = "--step",
                     .message = "this is the only checkpoint of the run that is whole",
                     .hint = "give --force to remove it all the same"});
}

absl::StatusOr<CommandResult> RemoveSuperseded(const std::string& run) {
  FTUNE_RETURN_IF_ERROR(CheckHasRun(RunPaths(run)));
  FTUNE_ASSIGN_OR_RETURN(const RunFolder folder, RunFolder::Continue(run));  // nobody may be writing
  CommandResult result;
  nlohmann::ordered_json& removed = result.json["removed"] = nlohmann::ordered_json::array();
  FTUNE_ASSIGN_OR_RETURN(const std::vector<SupersededCheckpoint> aside,
                         ListSuperseded(RunPaths(run).checkpoints()));
  for (const SupersededCheckpoint& one : aside) {
    const std::filesystem::path& doomed = one.entry.folder;
    FTUNE_RETURN_IF_ERROR(RemoveCheckpoint(doomed));
    removed.push_back(doomed.string());
    StrAppend(result.text, "removed ", doomed.string(), "\n");
  }
  if (aside.empty()) result.text = "no checkpoint of this run is set aside\n";
  return result;
}

}  // namespace

absl::StatusOr<CommandResult> RemoveCheckpoints(const CheckpointOptions& options) {
  const std::string& run = options.names.front();
  if (options.superseded && options.step) {
    return UsageError({.file = "command line",
                       .key = "--superseded",
                       .message = "it names other checkpoints than --step",
                       .hint = "leave one of the two out"});
  }
  if (options.superseded) return RemoveSuperseded(run);
  if (!options.step) {
    return UsageError({.file = "command line",
                       .key = "--step",
                       .message = "missing",
                       .expected = "the step of the checkpoint to remove"});
  }
  FTUNE_RETURN_IF_ERROR(CheckHasRun(RunPaths(run)));
  FTUNE_ASSIGN_OR_RETURN(const NamedCheckpoints named, ListNamed(run, options.step));
  const CheckpointEntry& doomed = named.entries.front();
  // Nobody may be writing, or about to go on from it.
  FTUNE_ASSIGN_OR_RETURN(const RunFolder folder, RunFolder::Continue(run));
  FTUNE_ASSIGN_OR_RETURN(const NamedCheckpoints all, ListNamed(run, std::nullopt));
  if (!options.force) FTUNE_RETURN_IF_ERROR(CheckAnotherIsWhole(all.entries, doomed));
  FTUNE_RETURN_IF_ERROR(RemoveCheckpoint(doomed.folder));
  nlohmann::ordered_json left = nlohmann::ordered_json::array();
  for (const CheckpointEntry& entry : all.entries) {
    if (entry.step != doomed.step) left.push_back({{"step", entry.step}, {"path", entry.folder.string()}});
  }
  return CommandResult{.json = {{"removed", doomed.step}, {"checkpoints", std::move(left)}},
                       .text = StrCat("removed ", doomed.folder.string(), "\n")};
}

}  // namespace ftune
