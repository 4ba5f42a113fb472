#include "cmd/observed_run.h"

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/process_start.h"
#include "base/unix_clock.h"
#include "cmd/run_folder.h"
#include "cmd/watch/training_log.h"
#include "parallel/launch/host_identity.h"

namespace ftune {
namespace {

// Of a leader on another host, whose disk may not tell who has the folder.
constexpr double kLongSilence = 30.0;  // seconds: some of kStatusHeartbeat

bool Lives(const RunStatus& status, const RunPaths& paths) {
  if (status.leader.identity == HostIdentity()) return LeaderIsHere(status.leader);
  return IsLocked(paths) || UnixNow() - status.updated < kLongSilence;
}

RunStatus StatusByLog(const RunPaths& paths) {
  TrainingLog log(paths.log(), LogTail::From::kBegin);
  log.Take();
  RunStatus status;
  status.figures = log.figures();
  status.attempt = log.attempt();
  status.restarts = log.restarts();
  status.updated = log.time();
  status.exit = log.exit();
  status.state = log.exit()        ? *log.exit() == 0 ? RunState::kDone : RunState::kStopped
                 : IsLocked(paths) ? RunState::kRunning
                                   : RunState::kGone;
  return status;
}

absl::StatusOr<RunStatus> ReadStatus(const RunPaths& paths) {
  FTUNE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(paths.status()));
  return ParseRunStatus(std::string(file.text()), paths.status().string());
}

}  // namespace

bool LeaderIsHere(const LeaderStatus& leader) {
  return leader.identity == HostIdentity() && ProcessStart(leader.pid) == leader.start;
}

absl::StatusOr<RunStatus> ObserveRun(const std::filesystem::path& folder) {
  const RunPaths paths(folder);
  absl::StatusOr<RunStatus> status = ReadStatus(paths);
  if (!status.ok()) {
    FTUNE_RETURN_IF_ERROR(CheckHasRun(paths));
    status = StatusByLog(paths);
  } else if (!HasEnded(status->state) && !Lives(*status, paths)) {
    status->last_state = status->state;
    status->state = RunState::kGone;
    if (HasRun(paths)) status->figures = StatusByLog(paths).figures;
    status->figures.seconds_left.reset();
  }
  status->run = folder.string();
  return status;
}

}  // namespace ftune
