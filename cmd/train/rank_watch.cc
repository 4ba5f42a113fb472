#include "cmd/train/rank_watch.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/monotonic_clock.h"
#include "base/strings.h"
#include "parallel/launch/odd_rank.h"

namespace ftune {
namespace {

// A longer time between two ticks is one in which this process did not run.
constexpr absl::Duration kLongestTick = absl::Milliseconds(200);

// "rank 3", "ranks 0, 4-7"
std::string ListRanks(const std::vector<int>& ranks) {
  std::string list;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    StrAppend(list, i == 0 ? "" : ", ", ranks[i]);
    if (end - i > 1) StrAppend(list, "-", ranks[end - 1]);
    i = end;
  }
  return StrCat(ranks.size() == 1 ? "rank " : "ranks ", list);
}

}  // namespace

RankWatch::RankWatch(const AttemptOrder& order, RankPlace& place, Verbosity verbosity, RankOutput& output,
                     RunWatch& run, const Options& options)
    : order_(order),
      place_(place),
      verbosity_(verbosity),
      output_(output),
      run_(run),
      on_straggler_(options.on_straggler),
      pulses_(place.ranks()),
      hang_(place.ranks(), options.limits),
      stragglers_(options.work),
      last_tick_(MonotonicNow()) {}

void RankWatch::OnTick() {
  if (run_.ends_now() && !std::exchange(killed_, true)) place_.KillAll();
  const absl::Duration now = MonotonicNow();
  const absl::Duration passed = std::clamp(now - last_tick_, absl::ZeroDuration(), kLongestTick);
  last_tick_ = now;
  if (!standstill_ && hang_.Hangs(passed)) EndStandstill();
}

void RankWatch::OnStarted(int rank, const RankProcess& process) { run_.OnStarted(rank, process.pid); }

void RankWatch::OnStopped(int rank, pid_t pid) {
  run_.OnState(rank, RankState::kStopped);
  hang_.OnStopped(rank);
  Say(rank, pid, "is stopped");
}

void RankWatch::OnContinued(int rank, pid_t pid) {
  run_.OnState(rank, RankState::kRunning);
  hang_.OnContinued(rank);
  Say(rank, pid, "goes on");
}

void RankWatch::OnPulse(int rank, const Pulse& pulse) {
  const int64_t resident = pulses_[rank].resident_bytes;
  pulses_[rank] = pulse;
  // Of a process that has ended there is none.
  if (pulse.resident_bytes == 0) pulses_[rank].resident_bytes = resident;
  run_.OnPulse(rank, pulses_[rank]);
  hang_.OnPulse(rank, pulse);
  if (const std::optional<Straggler> straggler = stragglers_.OnPulse(rank, pulse)) SayStraggler(*straggler);
}

void RankWatch::SayStraggler(const Straggler& straggler) {
  const std::string host = place_.HostOf(straggler.rank);
  const std::string text = absl::StrFormat(
      "rank %d%s is slow: a step takes it %.3g s to compute, %.2g times the median of ranks that do the same",
      straggler.rank, host.empty() ? "" : StrCat(" on ", host), straggler.compute_seconds, straggler.factor);
  output_.File(straggler.rank, text);
  if (verbosity_ != Verbosity::kQuiet) output_.Show(text);
  on_straggler_(straggler);
}

void RankWatch::OnLost(const std::string& host, const std::string& why) {
  run_.OnLost(host, why);
  output_.Show(StrCat("host ", host, " is lost: ", why));
}

void RankWatch::OnStranger(const std::string& address) {
  output_.Show(StrCat("a connection from ", address, " that does not know the run's token was refused"));
}

void RankWatch::Say(int rank, pid_t pid, std::string_view what) {
  const std::string host = place_.HostOf(rank);
  const std::string text =
      StrCat("rank ", rank, " (pid ", pid, host.empty() ? "" : StrCat(" on ", host), ") ", what);
  output_.File(rank, text);
  if (verbosity_ == Verbosity::kQuiet) return;
  output_.Show(StrCat(text, "; its log is ", order_.logs[rank].string()));
}

void RankWatch::EndStandstill() {
  standstill_ = {.still = hang_.still(), .odd = OddRank(pulses_)};
  std::vector<int> all(pulses_.size());
  std::iota(all.begin(), all.end(), 0);
  const std::string what = StrCat("no rank has shown anything new for ",
                                  absl::FormatDuration(absl::Trunc(hang_.still(), absl::Seconds(1))));
  if (verbosity_ != Verbosity::kQuiet) output_.Show(StrCat(what, ":"));
  SayPlaces(all);
  place_.EndRanks();
}

void RankWatch::SayPlaces(const std::vector<int>& ranks) {
  std::map<std::string, std::vector<int>> at;
  for (const int rank : ranks) {
    std::string place = DescribePlace(pulses_[rank]);
    if (place.empty()) place = "before it has shown anything";
    output_.File(rank, StrCat("it was ", place));
    at[std::move(place)].push_back(rank);
  }
  if (verbosity_ == Verbosity::kQuiet) return;
  for (const auto& [place, there] : at) {
    double still = 0.0;
    for (const int rank : there) still = std::max(still, pulses_[rank].still_seconds);
    output_.Show(absl::StrFormat("  %s: %s, for %.1f s", ListRanks(there), place, still));
  }
}

void RankWatch::SayWaits(const std::vector<int>& ranks) {
  std::vector<int> waiting;
  std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(waiting),
               [&](int rank) { return !pulses_[rank].call.empty(); });
  if (waiting.empty()) return;
  if (verbosity_ != Verbosity::kQuiet) output_.Show("others had to end while they waited:");
  SayPlaces(waiting);
}

}  // namespace ftune
