#include "cmd/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "cmd/base_checkpoint.h"
#include "cmd/hub/resolve.h"
#include "cmd/report/run_log.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/format/peft.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;

// What a run writes; nothing else in its folder is ever removed. status.json is that of whoever has the
// folder now, which replaces it.
std::vector<fs::path> RunEntries(const RunPaths& paths) {
  return {paths.recipe(),   paths.inputs(),     paths.log(),          paths.tensorboard(),
          paths.hook_log(), paths.dropped(),    paths.trace(),        paths.adapter(),
          paths.model(),    paths.incomplete(), paths.save_request(), paths.stop_request()};
}

// A log that is empty is that of a run that was cut off before it began.
bool IsEmpty(const fs::path& log) {
  std::error_code error;
  return !Exists(log) || (fs::file_size(log, error) == 0 && !error);
}

absl::Status CannotMake(const fs::path& folder, const std::string& why) {
  return UsageError({.file = folder.string(),
                     .key = "output_dir",
                     .message = StrCat("cannot be made or written to: ", why),
                     .hint = "choose another output_dir"});
}

// Beginnings of names: of what was being written, and of a checkpoint that was being removed.
constexpr std::array<std::string_view, 2> kUnfinished = {".incomplete", ".removing-"};
constexpr std::string_view kSuperseded = "superseded-";  // of checkpoints that were passed over
constexpr std::string_view kAttempt = "attempt-";

bool IsUnfinished(const std::string& name) {
  return std::any_of(kUnfinished.begin(), kUnfinished.end(),
                     [&](std::string_view start) { return name.starts_with(start); });
}

// Who only looks whether it is taken (IsLocked) has it for a moment.
bool TakeLock(int lock) {
  constexpr int kTries = 10;
  constexpr absl::Duration kMoment = absl::Milliseconds(10);
  for (int i = 0; i < kTries; ++i) {
    if (flock(lock, LOCK_EX | LOCK_NB) == 0) return true;
    absl::SleepFor(kMoment);
  }
  return false;
}

// What WriteFileAtomic leaves of a run's files where the process is killed.
bool IsTemporary(const std::string& name) {
  constexpr std::array<std::string_view, 3> kFiles = {".recipe.yaml.tmp-", ".inputs.json.tmp-",
                                                      ".status.json.tmp-"};
  return std::any_of(kFiles.begin(), kFiles.end(),
                     [&](std::string_view start) { return name.starts_with(start); });
}

// Checkpoints, finished or not, and the folder of them, unless there is something else in it.
absl::Status RemoveCheckpoints(const fs::path& checkpoints) {
  if (!Exists(checkpoints)) return absl::OkStatus();
  FTUNE_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, ListFolder(checkpoints));
  for (const fs::path& entry : entries) {
    const std::string name = entry.filename().string();
    const bool whole = (StepOfName(name) || name.starts_with(kSuperseded)) && Exists(entry / kManifestName);
    if (whole) FTUNE_RETURN_IF_ERROR(RemoveCheckpoint(entry));
    if (IsUnfinished(name)) FTUNE_RETURN_IF_ERROR(RemoveFolder(entry));
  }
  std::error_code error;
  fs::remove(checkpoints, error);
  return absl::OkStatus();
}

// By the folders of the ranks' logs, which an attempt that never got to its first step has too, and by the
// log.
absl::StatusOr<int> NextAttempt(const RunPaths& paths) {
  FTUNE_ASSIGN_OR_RETURN(const int logged, LastAttemptOf(paths.log()));
  FTUNE_ASSIGN_OR_RETURN(const int with_ranks, LastAttemptWithLogs(paths));
  return std::max(logged, with_ranks) + 1;
}

}  // namespace

fs::path RunPaths::attempt(int attempt) const { return ranks() / StrCat(kAttempt, attempt); }

fs::path RunPaths::rank_log(int attempt, int rank) const {
  return this->attempt(attempt) / StrCat("rank-", rank, ".log");
}

absl::StatusOr<int> LastAttemptWithLogs(const RunPaths& paths) {
  if (!Exists(paths.ranks())) return 0;
  FTUNE_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, ListFolder(paths.ranks()));
  int last = 0;
  for (const fs::path& entry : entries) {
    const std::string name = entry.filename().string();
    int attempt = 0;
    if (name.starts_with(kAttempt) && absl::SimpleAtoi(name.substr(kAttempt.size()), &attempt)) {
      last = std::max(last, attempt);
    }
  }
  return last;
}

fs::path RunPaths::Shown(const fs::path& path) const {
  if (shown == folder) return path;
  const fs::path within = path.lexically_relative(folder);
  return within == "." ? shown : shown / within;
}

absl::Status CheckHasRun(const RunPaths& paths) {
  if (HasRun(paths)) return absl::OkStatus();
  const bool there = Exists(paths.folder);
  ErrorDetail detail = {.file = paths.folder.string(),
                        .message = there ? "there is no run in this folder" : "there is no such folder",
                        .expected = "the folder of a run, with recipe.yaml and log.jsonl",
                        .hint = "begin one with `ftune train`"};
  if (StepOfName(paths.folder.filename().string())) {
    detail.message = "this is a checkpoint, not a run";
    detail.hint = "name the run's folder, and the checkpoint with --step";
  }
  return UsageError(std::move(detail));
}

bool HasRun(const RunPaths& paths) { return Exists(paths.log()) && Exists(paths.recipe()); }

bool IsLocked(const RunPaths& paths) {
  const Descriptor lock(open(paths.lock().c_str(), O_RDONLY | O_CLOEXEC));
  return lock && flock(lock.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

absl::StatusOr<RunFolder> RunFolder::Lock(const fs::path& folder) {
  const RunPaths paths(folder);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return CannotMake(folder, error.message());

  const int lock = open(paths.lock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0) return CannotMake(folder, strerror(errno));
  RunFolder run(paths, lock, /*attempt=*/1);
  if (!TakeLock(lock)) {
    return UsageError({.file = folder.string(),
                       .key = "output_dir",
                       .message = "another ftune is writing to this run",
                       .hint = "wait for it, or choose another output_dir"});
  }
  return run;
}

absl::StatusOr<RunFolder> RunFolder::Create(const fs::path& folder, bool force, int least_attempt) {
  FTUNE_ASSIGN_OR_RETURN(RunFolder run, Lock(folder));
  run.attempt_ = least_attempt;
  const RunPaths& paths = run.paths();
  if (Exists(paths.recipe()) && !Exists(paths.log())) {
    return UsageError(
        {.file = paths.recipe().string(),
         .key = "output_dir",
         .message = "this folder has a recipe.yaml that no run wrote, and a run would replace it",
         .hint = "choose another output_dir"});
  }
  if (!force && !HasRun(paths)) {
    FTUNE_ASSIGN_OR_RETURN(const std::vector<CheckpointEntry> kept, ListCheckpoints(paths.checkpoints()));
    if (!kept.empty()) {
      return UsageError({.file = paths.checkpoints().string(),
                         .key = "output_dir",
                         .message =
                             "there are checkpoints in this folder, whose run has lost its recipe.yaml or "
                             "log.jsonl, and a run would replace them",
                         .hint = "choose another output_dir, or replace them with --force"});
    }
  }
  if (!force && (HasRun(paths) || !IsEmpty(paths.log()))) {
    const std::string resume =
        HasRun(paths) ? StrCat("go on with it (`ftune resume ", folder.string(), "`), ") : "";
    return UsageError({.file = folder.string(),
                       .key = "output_dir",
                       .message = "there is a run in this folder already",
                       .hint = StrCat(resume, "choose another output_dir, or replace the run with --force")});
  }
  return run;
}

absl::StatusOr<RunFolder> RunFolder::Continue(const fs::path& folder, int least_attempt) {
  FTUNE_RETURN_IF_ERROR(CheckHasRun(RunPaths(folder)));
  FTUNE_ASSIGN_OR_RETURN(RunFolder run, Lock(folder));
  FTUNE_RETURN_IF_ERROR(CheckHasRun(run.paths()));  // another process may just have had it
  FTUNE_ASSIGN_OR_RETURN(const int next, NextAttempt(run.paths()));
  run.attempt_ = std::max(next, least_attempt);
  return run;
}

absl::Status RunFolder::BeginAttempt() {
  FTUNE_ASSIGN_OR_RETURN(attempt_, NextAttempt(paths_));
  return absl::OkStatus();
}

absl::Status RunFolder::RemoveLeftOvers() {
  for (const fs::path& folder : {paths_.folder, paths_.checkpoints()}) {
    if (!Exists(folder)) continue;
    FTUNE_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, ListFolder(folder));
    for (const fs::path& entry : entries) {
      const std::string name = entry.filename().string();
      if (IsUnfinished(name) || IsTemporary(name)) FTUNE_RETURN_IF_ERROR(RemoveFolder(entry));
    }
  }
  return absl::OkStatus();
}

absl::Status RunFolder::Clear() {
  std::vector<fs::path> entries = RunEntries(paths_);
  if (lock_ >= 0) entries.push_back(paths_.ranks());
  for (const fs::path& entry : entries) {
    std::error_code error;
    fs::remove_all(entry, error);
    if (error) return CannotMake(entry, error.message());
  }
  return RemoveCheckpoints(paths_.checkpoints());
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) close(lock_);
}

absl::StatusOr<RunModel> FindRunModel(const std::string& named, const std::string& base,
                                      const HubReporter& reporter) {
  FTUNE_ASSIGN_OR_RETURN(const ResolvedModel resolved,
                         ResolveModelPath(named, std::nullopt, ModelParts::kAll, reporter));
  const fs::path& source = resolved.path;
  const RunPaths run(source);
  fs::path folder = source;
  if (Exists(run.recipe())) {
    if (Exists(run.model() / "config.json")) return RunModel{run.model(), {}};
    if (!Exists(run.adapter() / "adapter_config.json")) {
      return DataError({.file = source.string(),
                        .message = "this run has neither an adapter nor a model yet",
                        .hint = "let it finish, or stop it with SIGINT: it saves then"});
    }
    folder = run.adapter();
  }
  if (!Exists(folder / "adapter_config.json")) return RunModel{source, {}};

  PeftConfig config{.base_model = base};
  // What an adapter was trained on is known by its own file, also where `base` says where that is now.
  absl::StatusOr<PeftConfig> own = ReadPeftConfig(folder);
  if (base.empty() && !own.ok()) return own.status();
  if (base.empty()) config = *own;
  std::optional<fs::path> checkpoint;
  for (const std::string& name : {base, own.ok() ? own->base_model : ""}) {
    if (!checkpoint && NamesCheckpoint(name)) checkpoint = name;
  }
  if (!checkpoint) checkpoint = BaseCheckpointOfAdapter(folder);
  CheckpointBase under;
  if (checkpoint) {
    FTUNE_ASSIGN_OR_RETURN(under, OpenCheckpointBase(*checkpoint, (folder / "adapter_config.json").string()));
    if (base.empty() || *checkpoint == base) {
      config.base_model = under.model;
      config.base_revision = under.revision.value_or("");
    }
  }
  std::optional<std::string> revision;
  if (!config.base_revision.empty()) revision = config.base_revision;
  FTUNE_ASSIGN_OR_RETURN(const ResolvedModel model,
                         ResolveModelPath(config.base_model, revision, ModelParts::kAll, reporter));
  RunModel found{model.path, {folder}, std::move(checkpoint), std::move(under.trained)};
  if (!Exists(found.model)) {
    return DataError({.file = (folder / "adapter_config.json").string(),
                      .key = "base_model_name_or_path",
                      .found = StrCat("'", found.model.string(), "', which does not exist here"),
                      .expected = "the folder or .gguf file of the base model",
                      .hint = "name it with --base"});
  }
  return found;
}

}  // namespace ftune
