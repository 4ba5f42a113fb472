// The folder of a run: what lies where, and who may write there.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/hub/hub_reporter.h"
#include "engine/format/weight_source.h"

namespace ftune {

struct RunPaths {
  explicit RunPaths(std::filesystem::path folder) : RunPaths(folder, folder) {}
  // Of a folder that is another's mirror.
  RunPaths(std::filesystem::path folder, std::filesystem::path shown)
      : folder(std::move(folder)), shown(std::move(shown)) {}

  std::filesystem::path recipe() const { return folder / "recipe.yaml"; }
  std::filesystem::path log() const { return folder / "log.jsonl"; }
  std::filesystem::path tensorboard() const { return folder / "tensorboard"; }
  std::filesystem::path hook_log() const { return folder / "hook.log"; }
  std::filesystem::path trace() const { return folder / "trace.json"; }
  std::filesystem::path lock() const { return folder / "lock"; }
  std::filesystem::path dropped() const { return folder / "data" / "dropped.jsonl"; }
  std::filesystem::path audit() const { return folder / "data" / "audit.json"; }
  std::filesystem::path inputs() const { return folder / "inputs.json"; }
  std::filesystem::path adapter() const { return folder / "adapter"; }
  std::filesystem::path model() const { return folder / "model"; }
  std::filesystem::path checkpoints() const { return folder / "checkpoints"; }
  std::filesystem::path slurm_script() const { return folder / "slurm.sh"; }
  std::filesystem::path save_request() const { return folder / "save"; }
  std::filesystem::path stop_request() const { return folder / "stop"; }
  std::filesystem::path status() const { return folder / "status.json"; }
  std::filesystem::path ranks() const { return folder / "ranks"; }
  std::filesystem::path attempt(int attempt) const;  // its ranks' logs
  std::filesystem::path rank_log(int attempt, int rank) const;
  // One of the two while it is written.
  std::filesystem::path incomplete() const { return folder / ".incomplete"; }
  // A path in the folder, or the folder itself, as it is told of.
  std::filesystem::path Shown(const std::filesystem::path& path) const;

  std::filesystem::path folder;
  std::filesystem::path shown;  // where who has called ftune finds it
};

// The last attempt that has logs of its ranks; 0: none has.
absl::StatusOr<int> LastAttemptWithLogs(const RunPaths& paths);

// Whether there is a run that can go on: one that has written its recipe and its log.
bool HasRun(const RunPaths& paths);
// An error that says what there is instead.
absl::Status CheckHasRun(const RunPaths& paths);

// Whether some process, on this host or another one, has the run's folder; false too where that cannot be
// told (a shared disk without locks).
bool IsLocked(const RunPaths& paths);

// A run's folder, taken for writing by this process for as long as it lives.
class RunFolder {
 public:
  // Makes the folder and changes nothing else in it. One that has a run already is refused, unless `force`.
  // One that another process writes to, or that has a recipe.yaml which no run wrote, is refused always.
  static absl::StatusOr<RunFolder> Create(const std::filesystem::path& folder, bool force,
                                          int least_attempt = 1);
  // The folder of a run that is there, for its next attempt; nothing in it is changed. One without a run, or
  // that another process writes to, is refused.
  static absl::StatusOr<RunFolder> Continue(const std::filesystem::path& folder, int least_attempt = 1);
  // The folder that the process which started this one has taken, and keeps for as long as this one lives.
  static RunFolder Adopt(const std::filesystem::path& folder, int attempt) {
    return RunFolder(RunPaths(folder), -1, attempt);
  }
  RunFolder(RunFolder&& other) noexcept
      : paths_(std::move(other.paths_)), lock_(other.lock_), attempt_(other.attempt_) {
    other.lock_ = -1;
  }
  RunFolder& operator=(RunFolder&&) = delete;
  ~RunFolder();

  const RunPaths& paths() const { return paths_; }
  // How often the run was started, with this time; `least_attempt` at least.
  int attempt() const { return attempt_; }
  // It is started once more.
  absl::Status BeginAttempt();

  // Removes what an earlier run wrote here, and nothing else; where it is adopted not the ranks' logs, which
  // are this run's. Called once the new run is known to start.
  absl::Status Clear();
  // Removes what a process that was killed had begun to write: results, checkpoints.
  absl::Status RemoveLeftOvers();

 private:
  RunFolder(RunPaths paths, int lock, int attempt)
      : paths_(std::move(paths)), lock_(lock), attempt_(attempt) {}
  // Makes the folder if need be. Refused where another process has it.
  static absl::StatusOr<RunFolder> Lock(const std::filesystem::path& folder);

  RunPaths paths_;
  int lock_;
  int attempt_;
};

// What a run's folder, an adapter's folder or a model stands for.
struct RunModel {
  std::filesystem::path model;                  // the model itself, or the adapter's base
  std::vector<std::filesystem::path> adapters;  // one, or none
  // Where the base is the model with the weights of a checkpoint: that, and the weights, as LoadModelOptions
  // has them.
  std::optional<std::filesystem::path> base_checkpoint = std::nullopt;
  std::vector<std::shared_ptr<const WeightSource>> trained = {};
};
// `source` may be a hub id, and so may `base`, which where not empty replaces the base that an adapter names;
// of a base with a checkpoint's weights the model that these are put into.
absl::StatusOr<RunModel> FindRunModel(const std::string& source, const std::string& base,
                                      const HubReporter& reporter);

}  // namespace ftune
