// All ranks on this host, which this process starts itself.
#pragma once

#include <cstdint>

#include "cmd/train/rank_place.h"

namespace ftune {

class LocalRanks final : public RankPlace {
 public:
  LocalRanks(int ranks, int64_t threads) : ranks_(ranks), threads_(threads) {}

  absl::StatusOr<std::vector<RankEnd>> Run(const AttemptOrder& order, TakenSignals& signals,
                                           RankOutput& output, RankObserver& observer) override;
  void EndRanks() override { supervisor_->EndAll(); }
  void KillAll() override { supervisor_->KillAll(); }
  int ranks() const override { return ranks_; }
  std::string HostOf(int /*rank*/) const override { return ""; }
  int signal() const override { return signal_; }

 private:
  int ranks_;
  int64_t threads_;  // of each
  int signal_ = 0;
  Supervisor* supervisor_ = nullptr;  // while ranks run
};

}  // namespace ftune
