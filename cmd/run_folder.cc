#include "cmd/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "cmd/hub/resolve.h"
#include "engine/format/peft.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;

// What a run writes; nothing else in its folder is ever removed.
std::vector<fs::path> RunEntries(const RunPaths& paths) {
  return {paths.recipe(), paths.log(),         paths.dropped(),      paths.trace(),     paths.adapter(),
          paths.model(),  paths.checkpoints(), paths.save_request(), paths.incomplete()};
}

absl::Status CannotMake(const fs::path& folder, const std::string& why) {
  return UsageError({.file = folder.string(),
                     .key = "output_dir",
                     .message = StrCat("cannot be made or written to: ", why),
                     .hint = "choose another output_dir"});
}

}  // namespace

fs::path RunPaths::rank_log(int attempt, int rank) const {
  return ranks() / StrCat("attempt-", attempt) / StrCat("rank-", rank, ".log");
}

absl::StatusOr<RunFolder> RunFolder::Create(const fs::path& folder, bool force) {
  const RunPaths paths(folder);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return CannotMake(folder, error.message());

  const int lock = open(paths.lock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0) return CannotMake(folder, strerror(errno));
  RunFolder run(paths, lock);
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    return UsageError({.file = folder.string(),
                       .key = "output_dir",
                       .message = "another ftune is writing to this run",
                       .hint = "wait for it, or choose another output_dir"});
  }
  if (Exists(paths.recipe()) && !Exists(paths.log())) {
    return UsageError(
        {.file = paths.recipe().string(),
         .key = "output_dir",
         .message = "this folder has a recipe.yaml that no run wrote, and a run would replace it",
         .hint = "choose another output_dir"});
  }
  if (Exists(paths.log())) {
    if (!force) {
      return UsageError({.file = folder.string(),
                         .key = "output_dir",
                         .message = "there is a run in this folder already",
                         .hint = "choose another output_dir, or replace the run with --force"});
    }
  }
  return run;
}

absl::Status RunFolder::Clear() {
  std::vector<fs::path> entries = RunEntries(paths_);
  if (lock_ >= 0) entries.push_back(paths_.ranks());
  for (const fs::path& entry : entries) {
    std::error_code error;
    fs::remove_all(entry, error);
    if (error) return CannotMake(entry, error.message());
  }
  return absl::OkStatus();
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
  if (base.empty()) {
    FTUNE_ASSIGN_OR_RETURN(config, ReadPeftConfig(folder));
  }
  std::optional<std::string> revision;
  if (!config.base_revision.empty()) revision = config.base_revision;
  FTUNE_ASSIGN_OR_RETURN(const ResolvedModel model,
                         ResolveModelPath(config.base_model, revision, ModelParts::kAll, reporter));
  const RunModel found{model.path, {folder}};
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
