// What is known of a run: what RUN/status.json has, and what is shown of it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parallel/launch/pulse.h"

namespace ftune {

enum class RunState {
  kStarting,         // its ranks have not begun to train
  kRunning,          //
  kRestarting,       // its ranks have failed, and are started again
  kWaitingForHosts,  // that are lost
  kDone,             //
  kStopped,          // by a signal or `ftune stop`
  kFailed,           //
  kGone,             // its process has ended without a word. Never in status.json: who reads that finds out
};
std::string_view Name(RunState state);
inline bool HasEnded(RunState state) { return state >= RunState::kDone; }

struct SavedPoint {
  int64_t step = 0;
  std::string path;
  double time = 0.0;  // Unix seconds, as are all below
};

// What the log says of training.
struct TrainingFigures {
  int64_t step = 0;  // that is done
  std::optional<int64_t> total_steps;
  std::optional<double> epoch, loss, eval_loss, learning_rate, grad_norm;
  std::optional<double> tokens_per_second, step_seconds, data_wait_seconds;  // of the last step
  std::optional<double> seconds_left;
  int64_t tokens = 0;                     // that the weights have been trained on
  std::map<std::string, int64_t> memory;  // bytes by kind, at the step's peak, of the rank that needs most
  int memory_rank = 0;
  std::optional<SavedPoint> checkpoint;  // the last one
};

enum class RankState {
  kRunning,
  kStopped,  // as by SIGSTOP
  kEnded,
  kLost,  // with its host
};
std::string_view Name(RankState state);

struct RankStatus {
  int rank = 0;
  std::string host;
  pid_t pid = -1;
  RankState state = RankState::kRunning;
  std::optional<Pulse> pulse;  // the last that was seen
};

inline constexpr char kHostUp[] = "up";
inline constexpr char kHostMissing[] = "without ranks";

struct HostStatus {
  std::string name;
  std::vector<int> ranks;
  std::string state = kHostUp;  // or kHostMissing: of the recipe, but not in use; or "lost: WHY"
};

// The process that leads a run: the ftune that started the ranks, or rank 0.
struct LeaderStatus {
  std::string host;      // its name
  std::string identity;  // HostIdentity
  pid_t pid = -1;
  int64_t start = 0;    // ProcessStart
  std::string metrics;  // where pages for Prometheus are: "127.0.0.1:9090"; or empty
};

struct RunError {
  std::string message;
  int exit = 0;
};

struct RunStatus {
  std::string run;  // its folder
  RunState state = RunState::kStarting;
  std::optional<RunState> last_state;  // where it is gone: the last that it told
  int attempt = 1;                     // of the run
  int restarts = 0;                    // since this leader began
  double started = 0.0, updated = 0.0;
  TrainingFigures figures;
  std::vector<HostStatus> hosts;
  std::vector<RankStatus> ranks;
  LeaderStatus leader;
  std::optional<RunError> error;  // of a run that has failed
  std::optional<int> exit;        // of one that has ended
};

// The leader writes status.json so often at least, also where nothing changes.
inline constexpr absl::Duration kStatusHeartbeat = absl::Seconds(10);

nlohmann::ordered_json ToJson(RunStatus status);
std::string ToText(const RunStatus& status);  // the JSON
// `source` is only named in errors. What is missing is as in a new RunStatus.
absl::StatusOr<RunStatus> ParseRunStatus(const std::string& text, const std::string& source);

}  // namespace ftune
