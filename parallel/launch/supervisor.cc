#include "parallel/launch/supervisor.h"

#include <poll.h>
#include <sys/signalfd.h>
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

struct Supervisor::Rank {
  RankProcess process;
  std::string report;
  bool alive = true;
  bool told = false;
};

Supervisor::Supervisor(SupervisorOptions options, Output output)
    : options_(std::move(options)), output_(std::move(output)) {
  std::signal(SIGCHLD, SIG_DFL);  // ignored, it would leave nothing to wait for
  sigset_t taken;
  sigemptyset(&taken);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&taken, signal);
  pthread_sigmask(SIG_BLOCK, &taken, &before_);
  signals_ = Descriptor(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
}

Supervisor::~Supervisor() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

absl::StatusOr<std::vector<RankEnd>> Supervisor::Run(const std::vector<RankCommand>& commands) {
  std::vector<Rank> ranks;
  absl::Status started;
  for (const RankCommand& command : commands) {
    absl::StatusOr<RankProcess> process = StartRank(command);
    if (!process.ok()) {
      started = process.status();
      failed_ = absl::InfinitePast();  // those that run are ended at once
      break;
    }
    ranks.push_back({.process = *std::move(process)});
  }
  std::vector<RankEnd> ends;
  while (ends.size() < ranks.size()) {
    EndOthers(ranks);
    Wait(ranks);
    PassOnSignals(ranks);
    for (int i = 0; i < ranks.size(); ++i) Read(i, ranks[i]);
    Reap(ranks, ends);
  }
  FTUNE_RETURN_IF_ERROR(started);
  return ends;
}

// Until something comes, or somebody has to be ended.
void Supervisor::Wait(std::vector<Rank>& ranks) {
  std::vector<pollfd> waits = {{.fd = signals_.get(), .events = POLLIN}};
  for (const Rank& rank : ranks) {
    waits.push_back({.fd = rank.process.errors.get(), .events = POLLIN});
    waits.push_back({.fd = rank.process.report.get(), .events = POLLIN});
  }
  constexpr int kLookAgain = 500;  // milliseconds
  poll(waits.data(), waits.size(), kLookAgain);
}

void Supervisor::PassOnSignals(std::vector<Rank>& ranks) {
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo == SIGCHLD) continue;
    signal_ = static_cast<int>(info.ssi_signo);
    for (const Rank& rank : ranks) {
      if (rank.alive) kill(rank.process.pid, signal_);
    }
  }
}

void Supervisor::Read(int number, Rank& rank) {
  const auto drain = [](Descriptor& pipe, const auto& take) {
    char bytes[1 << 14];
    while (pipe) {
      const ssize_t count = read(pipe.get(), bytes, sizeof(bytes));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return;
      if (count <= 0) {
        pipe = Descriptor();
        return;
      }
      take(std::string_view(bytes, static_cast<size_t>(count)));
    }
  };
  drain(rank.process.errors, [&](std::string_view bytes) { output_(number, bytes); });
  drain(rank.process.report, [&](std::string_view bytes) { rank.report += bytes; });
}

void Supervisor::Reap(std::vector<Rank>& ranks, std::vector<RankEnd>& ends) {
  for (int i = 0; i < ranks.size(); ++i) {
    Rank& rank = ranks[i];
    int status = 0;
    if (!rank.alive || waitpid(rank.process.pid, &status, WNOHANG) != rank.process.pid) continue;
    rank.alive = false;
    Read(i, rank);
    ends.push_back(
        {.rank = i, .wait_status = status, .report = std::move(rank.report), .was_told = rank.told});
    if (!IsGood(status) && !failed_) failed_ = absl::Now();
  }
}

void Supervisor::EndOthers(std::vector<Rank>& ranks) {
  if (!failed_) return;
  const absl::Time term = *failed_ + options_.until_term;
  const bool kills = absl::Now() >= term + options_.until_kill;
  const bool terms = absl::Now() >= term && !sent_term_;
  if (!kills && !terms) return;
  sent_term_ = true;
  for (Rank& rank : ranks) {
    if (!rank.alive) continue;
    rank.told = true;
    kill(-rank.process.pid, kills ? SIGKILL : SIGTERM);
  }
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
