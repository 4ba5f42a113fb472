// What becomes of a run's ranks while they run: for the screen, for their files, for those who watch the run
// from outside, and for who has to act on it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "cmd/report/progress.h"
#include "cmd/train/rank_output.h"
#include "cmd/train/rank_place.h"
#include "cmd/train/run_watch.h"
#include "parallel/launch/hang_watch.h"
#include "parallel/launch/straggler_watch.h"

namespace ftune {

// All ranks stood still, and were ended.
struct Standstill {
  absl::Duration still;
  std::optional<int> odd;  // whom the others wait for, where that can be told
};

class RankWatch final : public RankObserver {
 public:
  struct Options {
    HangLimits limits;
    std::vector<int> work;  // of each rank: see StragglerWatch
    std::function<void(const Straggler&)> on_straggler;
  };
  // All outlive it.
  RankWatch(const AttemptOrder& order, RankPlace& place, Verbosity verbosity, RankOutput& output,
            RunWatch& run, const Options& options);

  void OnTick() override;
  void OnStarted(int rank, const RankProcess& process) override;
  void OnStopped(int rank, pid_t pid) override;
  void OnContinued(int rank, pid_t pid) override;
  void OnPulse(int rank, const Pulse& pulse) override;
  void OnLost(const std::string& host, const std::string& why) override;
  void OnStranger(const std::string& address) override;

  // What each rank showed last.
  const std::vector<Pulse>& pulses() const { return pulses_; }
  const std::optional<Standstill>& standstill() const { return standstill_; }
  bool IsSlow(int rank) const { return stragglers_.IsSlow(rank); }

  // Says where those of `ranks` are that wait for others, ranks at the same place in one line; and in each
  // rank's file.
  void SayWaits(const std::vector<int>& ranks);

 private:
  void SayStraggler(const Straggler& straggler);
  void Say(int rank, pid_t pid, std::string_view what);
  void SayPlaces(const std::vector<int>& ranks);
  void EndStandstill();

  const AttemptOrder& order_;
  RankPlace& place_;
  Verbosity verbosity_;
  RankOutput& output_;
  RunWatch& run_;
  bool killed_ = false;
  std::function<void(const Straggler&)> on_straggler_;
  std::vector<Pulse> pulses_;
  HangWatch hang_;
  StragglerWatch stragglers_;
  absl::Duration last_tick_;
  std::optional<Standstill> standstill_;
};

}  // namespace ftune
