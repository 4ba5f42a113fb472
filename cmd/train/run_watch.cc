#include "cmd/train/run_watch.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/http/http_server_library.h"
#include "base/monotonic_clock.h"
#include "base/process_start.h"
#include "base/quiet_thread.h"
#include "base/strings.h"
#include "base/unix_clock.h"
#include "cmd/stop_request.h"
#include "cmd/watch/metrics_text.h"
#include "parallel/launch/host_identity.h"

namespace ftune {
namespace {

constexpr auto kLook = std::chrono::milliseconds(250);       // between looks at the log and for requests
constexpr absl::Duration kBetweenWrites = absl::Seconds(1);  // unless the state changes
constexpr int kEndedAtOnce = 128 + SIGTERM;

std::string PlaceOf(const std::string& address, int port) {
  const bool numeric6 = address.find(':') != std::string::npos;
  return StrCat(numeric6 ? "[" : "", address, numeric6 ? "]:" : ":", port);
}

}  // namespace

RunWatch::RunWatch(RunPaths paths, Leader leader) : paths_(std::move(paths)), leader_(leader) {
  status_.run = paths_.folder.string();
  status_.started = UnixNow();
  status_.leader = {.host = HostName(),
                    .identity = HostIdentity(),
                    .pid = getpid(),
                    .start = ProcessStart(getpid()).value_or(0)};
}

RunWatch::~RunWatch() {
  server_.reset();
  Finish(RunState::kFailed, 1, std::nullopt);
}

absl::Status RunWatch::Serve(const LoadedRecipe& loaded, Progress& progress) {
  const LogSection& log = loaded.recipe.log;
  if (!log.metrics_port) return absl::OkStatus();
  nvml_ = Nvml::Open();
  const HttpServerOptions options = {
      .address = log.metrics_address,
      .port = static_cast<int>(*log.metrics_port),
      .pages = {{"/metrics", {kMetricsType, [this] { return Metrics(); }}},
                {"/status", {"application/json", [this] { return StrCat(ToText(Status()), "\n"); }}}}};
  absl::StatusOr<std::unique_ptr<HttpServer>> server = StartHttpServer(options);
  if (!server.ok()) {
    ErrorDetail detail = DetailOf(server.status()).value_or(ErrorDetail{});
    if (!detail.file.empty()) return server.status();  // of the library
    detail.key = "log.metrics_port";
    return loaded.Placed(UsageError(std::move(detail)));
  }
  server_ = *std::move(server);
  status_.leader.metrics = PlaceOf(log.metrics_address, server_->port());
  progress.Say(StrCat("metrics: http://", status_.leader.metrics, "/metrics"));
  return absl::OkStatus();
}

std::string RunWatch::Metrics() {
  std::vector<GpuUse> gpus;
  if (nvml_ != nullptr) {
    const std::lock_guard lock(gpu_mutex_);
    gpus = nvml_->Look();
  }
  return MetricsText(Status(), gpus, UnixNow());
}

RunStatus RunWatch::Status() {
  const std::lock_guard lock(mutex_);
  RunStatus status = status_;
  status.updated = UnixNow();
  return status;
}

void RunWatch::Begin(int attempt, bool goes_on) {
  RemoveStopRequest(paths_);  // that the run before did not live to see
  const std::lock_guard lock(mutex_);
  status_.attempt = attempt;
  log_.emplace(paths_.log(), goes_on ? LogTail::From::kBegin : LogTail::From::kEnd);
  begun_ = true;
  Refresh();
  Write();
  thread_ = QuietThread([this] { Run(); });
}

void RunWatch::BeginAttempt(int attempt, std::vector<HostStatus> hosts, std::vector<RankStatus> ranks) {
  const std::lock_guard lock(mutex_);
  if (attempt != status_.attempt) ++status_.restarts;
  status_.attempt = attempt;
  status_.hosts = std::move(hosts);
  status_.ranks = std::move(ranks);
  ranks_run_ = true;
  urgent_ = true;
  wake_.notify_all();
}

void RunWatch::SetState(RunState state) {
  const std::lock_guard lock(mutex_);
  status_.state = state;
  urgent_ = true;
  wake_.notify_all();
}

RankStatus* RunWatch::Find(int rank) {
  const auto found = std::find_if(status_.ranks.begin(), status_.ranks.end(),
                                  [&](const RankStatus& status) { return status.rank == rank; });
  return found == status_.ranks.end() ? nullptr : &*found;
}

void RunWatch::OnStarted(int rank, pid_t pid) {
  const std::lock_guard lock(mutex_);
  if (RankStatus* const status = Find(rank)) status->pid = pid;
  Changed();
}

void RunWatch::OnState(int rank, RankState state) {
  const std::lock_guard lock(mutex_);
  if (RankStatus* const status = Find(rank)) status->state = state;
  Changed();
}

void RunWatch::OnPulse(int rank, const Pulse& pulse) {
  const std::lock_guard lock(mutex_);
  if (RankStatus* const status = Find(rank)) status->pulse = pulse;
  Changed();
}

void RunWatch::OnLost(const std::string& host, const std::string& why) {
  const std::lock_guard lock(mutex_);
  for (HostStatus& status : status_.hosts) {
    if (status.name == host) status.state = StrCat("lost: ", why);
  }
  for (RankStatus& rank : status_.ranks) {
    if (rank.host == host) rank.state = RankState::kLost;
  }
  Changed();
}

void RunWatch::EndRanks() {
  const std::lock_guard lock(mutex_);
  MarkEnded();
}

void RunWatch::MarkEnded() {
  for (RankStatus& rank : status_.ranks) {
    if (rank.state != RankState::kLost) rank.state = RankState::kEnded;
  }
  ranks_run_ = false;
  Changed();
}

void RunWatch::End(const absl::StatusOr<CommandResult>& result) {
  if (!result.ok()) {
    const int exit = ExitCodeOf(result.status());
    Finish(RunState::kFailed, exit,
           RunError{.message = std::string(result.status().message()), .exit = exit});
    return;
  }
  Finish(result->exit == 0 ? RunState::kDone : RunState::kStopped, result->exit, std::nullopt);
}

bool RunWatch::Finish(RunState state, int exit, std::optional<RunError> error) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    if (!begun_) return false;
    is_first = !std::exchange(ended_, true);
    wake_.notify_all();
  }
  // Where the thread was first it ends the process, and this does not return.
  if (thread_.get_id() != std::this_thread::get_id() && thread_.joinable()) thread_.join();
  if (!is_first) return false;
  const std::lock_guard lock(mutex_);
  Refresh();
  MarkEnded();
  status_.state = state;
  status_.exit = exit;
  status_.error = std::move(error);
  Write();
  return true;
}

void RunWatch::Run() {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    Refresh();
    if (urgent_ || MonotonicNow() - written_at_ >= (changed_ ? kBetweenWrites : kStatusHeartbeat)) Write();
    lock.unlock();
    TakeRequest();
    lock.lock();
    wake_.wait_for(lock, kLook, [&] { return ended_ || urgent_; });
  }
}

void RunWatch::TakeRequest() {
  const std::optional<StopRequest> request = TakeStopRequest(paths_);
  if (!request) return;
  if (*request == StopRequest::kNow) {
    ends_now_ = true;
    if (leader_ == Leader::kRank) {
      if (Finish(RunState::kStopped, kEndedAtOnce, std::nullopt)) _exit(kEndedAtOnce);
      return;  // it ends by itself at this moment
    }
  }
  kill(getpid(), SIGTERM);
}

void RunWatch::Refresh() {
  if (look_ && MonotonicNow() - looked_at_ >= kBetweenWrites) {
    looked_at_ = MonotonicNow();
    for (RankStatus& rank : status_.ranks) rank.pulse = look_();
    changed_ = true;
  }
  if (!log_->Take()) return;
  changed_ = true;
  status_.figures = log_->figures();
  if (!ranks_run_ || status_.state == RunState::kRunning || log_->begun_attempt() != status_.attempt) return;
  status_.state = RunState::kRunning;
  urgent_ = true;
}

// What cannot be written is written later: a disk that is full is no reason for a run to end.
void RunWatch::Write() {
  urgent_ = false;
  written_at_ = MonotonicNow();
  status_.updated = UnixNow();
  const absl::Status written =
      WriteFileAtomic(paths_.status(), StrCat(ToText(status_), "\n"), Durability::kInCache);
  if (written.ok()) changed_ = false;
}

}  // namespace ftune
