#include "parallel/launch/straggler_watch.h"

#include <algorithm>
#include <iterator>

namespace ftune {
namespace {

// The lower one of an even number: of two ranks the slow one does not raise what it is compared with.
double Median(std::vector<double> values) {
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::optional<Straggler> StragglerWatch::OnPulse(int number, const Pulse& pulse) {
  Rank& rank = ranks_[number];
  if (pulse.step_seconds == 0.0 || pulse.step == rank.step) return std::nullopt;
  rank.step = pulse.step;
  rank.seconds.push_back(pulse.compute_seconds);
  if (rank.seconds.size() > kStragglerWindow) rank.seconds.pop_front();
  if (!Judged(number)) return std::nullopt;
  rank.median = Median({rank.seconds.begin(), rank.seconds.end()});

  std::vector<double> medians;
  for (int other = 0; other < std::ssize(ranks_); ++other) {
    if (work_[other] != work_[number]) continue;
    if (!Judged(other)) return std::nullopt;
    medians.push_back(ranks_[other].median);
  }
  const double median = Median(medians);
  const double factor = median > 0.0 ? rank.median / median : 1.0;
  if (factor < kRecoveredFactor) rank.slow = false;
  const bool behind = factor > kStragglerFactor && rank.median - median > kStragglerLeastSeconds;
  if (!behind || rank.slow) return std::nullopt;
  rank.slow = true;
  return Straggler{.rank = number,
                   .step = pulse.step,
                   .compute_seconds = rank.median,
                   .median_seconds = median,
                   .factor = factor};
}

}  // namespace ftune
