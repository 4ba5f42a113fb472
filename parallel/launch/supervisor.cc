#include "parallel/launch/supervisor.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/time/clock.h"
#include "base/error.h"
#include "base/strings.h"

namespace ftune {

namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);
constexpr absl::Duration kLook = absl::Seconds(1);

}  // namespace

struct Supervisor::Rank {
  RankProcess process;
  std::string report;
  bool alive = true;
  bool told = false;
  std::optional<absl::Duration> stopped_at;  // since when it has been
  bool stood_still = false;
};

Supervisor::Supervisor(SupervisorOptions options, TakenSignals& signals, SupervisorObserver& observer)
    : options_(std::move(options)), signals_(signals), observer_(observer) {}

Supervisor::~Supervisor() = default;

absl::StatusOr<std::vector<RankEnd>> Supervisor::Run(const std::vector<RankCommand>& commands) {
  absl::Status started;
  for (const RankCommand& command : commands) {
    absl::StatusOr<RankProcess> process = StartRank(command);
    if (!process.ok()) {
      started = process.status();
      term_at_ = clock_;  // those that run are ended at once
      break;
    }
    ranks_.push_back({.process = *std::move(process)});
    observer_.OnStarted(static_cast<int>(ranks_.size()) - 1, ranks_.back().process);
  }
  while (ends_.size() < ranks_.size()) {
    EndStopped();
    EndOthers();
    Wait();
    TakeSignals();
    Reap();
    LookAtAll();
    observer_.OnTick();
  }
  FTUNE_RETURN_IF_ERROR(started);
  return std::move(ends_);
}

// Until something comes, or a tick has passed.
void Supervisor::Wait() {
  std::vector<pollfd> waits = {{.fd = signals_.descriptor(), .events = POLLIN},
                               {.fd = observer_.wakes(), .events = POLLIN}};
  for (const Rank& rank : ranks_) waits.push_back({.fd = rank.process.report.get(), .events = POLLIN});
  const absl::Time before = absl::Now();
  poll(waits.data(), waits.size(), static_cast<int>(absl::ToInt64Milliseconds(kTick)));
  clock_ += std::clamp(absl::Now() - before, absl::ZeroDuration(), 2 * kTick);
  for (Rank& rank : ranks_) Read(rank);
}

void Supervisor::TakeSignals() {
  while (const std::optional<int> signal = signals_.Next()) {
    if (*signal == SIGCHLD) continue;
    if (*signal == SIGTSTP) {
      StopAll();
    } else {
      Pass(*signal);
    }
  }
}

void Supervisor::Pass(int signal) {
  if (signal != SIGUSR1) signal_ = signal;
  for (const Rank& rank : ranks_) {
    if (rank.alive) kill(rank.process.pid, signal);
  }
}

void Supervisor::EndAll() {
  if (!term_at_) term_at_ = clock_ + (observer_.HaveMet() ? options_.until_term : absl::ZeroDuration());
}

void Supervisor::KillAll() {
  for (Rank& rank : ranks_) rank.told |= rank.alive;
  SignalGroups(SIGKILL);
}

void Supervisor::StopAll() {
  SignalGroups(SIGSTOP);
  StopAsTerminalAsks();
  SignalGroups(SIGCONT);
}

void Supervisor::SignalGroups(int signal) {
  for (const Rank& rank : ranks_) {
    if (rank.alive) kill(-rank.process.pid, signal);
  }
}

void Supervisor::Read(Rank& rank) {
  Descriptor& pipe = rank.process.report;
  char bytes[1 << 14];
  while (pipe) {
    const ssize_t count = read(pipe.get(), bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {
      pipe = Descriptor();
      return;
    }
    rank.report.append(bytes, static_cast<size_t>(count));
  }
}

void Supervisor::LookAtAll() {
  if (clock_ < next_look_) return;
  next_look_ = clock_ + kLook;
  for (int i = 0; i < std::ssize(ranks_); ++i) {
    if (ranks_[i].alive) LookAt(i);
  }
}

void Supervisor::LookAt(int number) {
  const RankProcess& process = ranks_[number].process;
  observer_.OnPulse(number, process.pulse.Look(process.pid));
}

void Supervisor::Reap() {
  for (int i = 0; i < ranks_.size(); ++i) Reap(i);
}

void Supervisor::Reap(int number) {
  Rank& rank = ranks_[number];
  const pid_t pid = rank.process.pid;
  int status = 0;
  while (rank.alive && waitpid(pid, &status, WNOHANG | WUNTRACED | WCONTINUED) == pid) {
    if (WIFSTOPPED(status)) {
      if (!rank.stopped_at) observer_.OnStopped(number, pid);
      rank.stopped_at = rank.stopped_at.value_or(clock_);
      continue;
    }
    if (WIFCONTINUED(status)) {
      if (rank.stopped_at) observer_.OnContinued(number, pid);
      rank.stopped_at.reset();
      continue;
    }
    rank.alive = false;
    Read(rank);
    LookAt(number);
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !rank.told && !rank.stood_still;
    ends_.push_back({.rank = number,
                     .pid = pid,
                     .wait_status = status,
                     .report = std::move(rank.report),
                     .was_told = rank.told,
                     .stood_still = rank.stood_still,
                     .out_of_memory = killed && oom_kills_.Killed(pid)});
    observer_.OnEnd(ends_.back());
    if (!IsGood(status)) EndAll();
  }
}

void Supervisor::EndStopped() {
  for (Rank& rank : ranks_) {
    if (!rank.alive || !rank.stopped_at || clock_ - *rank.stopped_at < options_.stopped_timeout) continue;
    if (rank.stood_still || rank.told || observer_.HaveMet()) continue;
    rank.stood_still = true;
    kill(-rank.process.pid, SIGKILL);
  }
}

void Supervisor::EndOthers() {
  if (!term_at_) return;
  const bool all_stand_still = std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
    return !rank.alive || rank.stopped_at.has_value();
  });
  if (clock_ < *term_at_ && !all_stand_still) return;
  const bool kills = clock_ >= *term_at_ + options_.until_kill;
  for (Rank& rank : ranks_) {
    if (!rank.alive) continue;
    if (kills || rank.stopped_at) {
      kill(-rank.process.pid, SIGKILL);
    } else if (!sent_term_) {
      kill(-rank.process.pid, SIGTERM);
    }
    rank.told = true;
  }
  sent_term_ = true;
}

bool Supervisor::IsGood(int wait_status) const {
  return WIFEXITED(wait_status) && std::find(options_.good.begin(), options_.good.end(),
                                             WEXITSTATUS(wait_status)) != options_.good.end();
}

std::string DescribeEnd(int wait_status) {
  if (WIFEXITED(wait_status)) return StrCat("ended with exit status ", WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  const char* name = sigabbrev_np(signal);
  return StrCat("was killed by signal ", signal, name == nullptr ? "" : StrCat(" (SIG", name, ")"));
}

}  // namespace ftune
