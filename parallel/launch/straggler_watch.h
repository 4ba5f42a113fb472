// Which ranks take longer for the same work than the others, by what they show.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "parallel/launch/pulse.h"

namespace ftune {

// A rank is judged by the median of its last kStragglerWindow steps that were seen, once these are
// kStragglerLeast, against the (lower) median of those of all ranks that do the same work. It is slow from
// kStragglerFactor on, and no longer below kRecoveredFactor. Differences below kStragglerLeastSeconds are
// noise.
inline constexpr size_t kStragglerWindow = 20;
inline constexpr size_t kStragglerLeast = 10;
inline constexpr double kStragglerFactor = 1.5;
inline constexpr double kRecoveredFactor = 1.25;
inline constexpr double kStragglerLeastSeconds = 0.005;

struct Straggler {
  int rank = 0;
  int64_t step = 0;
  double compute_seconds = 0.0;  // of a step
  double median_seconds = 0.0;   // of the ranks that do the same
  double factor = 1.0;           // the one by the other
};

class StragglerWatch {
 public:
  // Ranks with equal numbers do the same work.
  explicit StragglerWatch(std::vector<int> work) : work_(std::move(work)), ranks_(work_.size()) {}

  // A rank that has just been found to be slow, if any.
  std::optional<Straggler> OnPulse(int rank, const Pulse& pulse);
  // Whether it was found to be, and has not recovered.
  bool IsSlow(int rank) const { return ranks_[rank].slow; }

 private:
  struct Rank {
    std::deque<double> seconds;
    int64_t step = 0;  // that it was in when it was seen last
    double median = 0.0;
    bool slow = false;
  };

  bool Judged(int rank) const { return ranks_[rank].seconds.size() >= kStragglerLeast; }

  std::vector<int> work_;
  std::vector<Rank> ranks_;
};

}  // namespace ftune
