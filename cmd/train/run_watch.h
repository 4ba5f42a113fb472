// What the process that leads a run lets others know of it, and hears from them: RUN/status.json, pages for
// Prometheus, and requests to stop.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/http/http_server.h"
#include "base/nvml.h"
#include "cmd/command.h"
#include "cmd/recipe/load.h"
#include "cmd/report/progress.h"
#include "cmd/run_folder.h"
#include "cmd/watch/run_status.h"
#include "cmd/watch/training_log.h"

namespace ftune {

class RunWatch {
 public:
  // Who leads the run, by which a request to end at once is met.
  enum class Leader {
    kLauncher,  // ends its ranks: see ends_now
    kRank,      // the process ends
  };

  // Keeps what it is told to itself until Begin; so it does for good of what is no run.
  RunWatch(RunPaths paths, Leader leader);
  // A run that did not come to End has failed.
  ~RunWatch();
  RunWatch(const RunWatch&) = delete;
  RunWatch& operator=(const RunWatch&) = delete;

  // Where the recipe has log.metrics_port, pages are served from here on. An error where that cannot be.
  absl::Status Serve(const LoadedRecipe& loaded, Progress& progress);

  // The run's folder is this process's now, for longer than this lives: status.json is kept from here on, in
  // a thread of its own. `goes_on`: the log that is there is the run's. Once.
  void Begin(int attempt, bool goes_on);
  // Its ranks are started, the first time or again.
  void BeginAttempt(int attempt, std::vector<HostStatus> hosts, std::vector<RankStatus> ranks);
  void SetState(RunState state);

  // Of ranks that BeginAttempt has named.
  void OnStarted(int rank, pid_t pid);
  void OnState(int rank, RankState state);
  void OnPulse(int rank, const Pulse& pulse);
  void OnLost(const std::string& host, const std::string& why);
  void EndRanks();
  // Of a process that is a rank itself and leads: what that one shows, looked at now and then.
  void set_look(std::function<Pulse()> look) { look_ = std::move(look); }

  // What became of the run: the last that is written.
  void End(const absl::StatusOr<CommandResult>& result);

  // Somebody has asked that the run ends without saving; SIGTERM has been sent to this process.
  bool ends_now() const { return ends_now_; }

 private:
  std::string Metrics();
  // As it is now.
  RunStatus Status();

  void Run();
  void TakeRequest();
  void Refresh();
  // False where it has ended already, or has not begun.
  bool Finish(RunState state, int exit, std::optional<RunError> error);
  // Of `mutex_`'s holder.
  void Changed() { changed_ = true; }
  void MarkEnded();
  void Write();
  RankStatus* Find(int rank);

  const RunPaths paths_;
  const Leader leader_;
  std::function<Pulse()> look_;  // set before Begin
  std::atomic<bool> ends_now_{false};

  std::mutex mutex_;  // of all that follows, up to the thread
  std::condition_variable wake_;
  RunStatus status_;
  std::optional<TrainingLog> log_;
  bool ranks_run_ = false;  // those of status_.attempt
  bool begun_ = false;
  bool ended_ = false;
  bool changed_ = false;  // since it was written
  bool urgent_ = false;   // and shall be written at once
  absl::Duration written_at_, looked_at_;

  std::thread thread_;
  std::mutex gpu_mutex_;
  std::unique_ptr<Nvml> nvml_;
  std::unique_ptr<HttpServer> server_;  // the first to end: it asks for all of the above
};

}  // namespace ftune
