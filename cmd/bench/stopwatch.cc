#include "cmd/bench/stopwatch.h"

#include <algorithm>
#include <vector>

#include "absl/time/time.h"
#include "base/error.h"
#include "base/monotonic_clock.h"

namespace ftune {
namespace {

constexpr absl::Duration kLong = absl::Milliseconds(20);
constexpr size_t kFewest = 5;
constexpr size_t kMost = 2000;

absl::StatusOr<double> MeanOfRanks(Communicator& ranks, double value) {
  FTUNE_ASSIGN_OR_RETURN(const double sum, ranks.AllReduce(value));
  return sum / ranks.size();
}

template <class F>
double TimeOf(const F& call) {
  const absl::Duration begin = MonotonicNow();
  call();
  return absl::ToDoubleSeconds(MonotonicNow() - begin);
}

}  // namespace

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

absl::StatusOr<double> SecondsOf(Communicator& ranks, const std::function<void()>& call) {
  call();  // memory is there, threads have started
  FTUNE_RETURN_IF_ERROR(ranks.Run(Call::Barrier()));
  std::vector<double> seconds;
  const absl::Duration end = MonotonicNow() + kLong;
  while (seconds.size() < kFewest || (MonotonicNow() < end && seconds.size() < kMost)) {
    seconds.push_back(TimeOf(call));
  }
  return MeanOfRanks(ranks, Median(std::move(seconds)));
}

absl::StatusOr<double> SecondsOfCall(Communicator& ranks, const Call& call) {
  FTUNE_RETURN_IF_ERROR(ranks.Run(call));
  absl::Status status;
  const auto once = [&] { status.Update(ranks.Run(call)); };
  FTUNE_ASSIGN_OR_RETURN(const double about, MeanOfRanks(ranks, TimeOf(once)));
  const auto rounds = static_cast<size_t>(absl::ToDoubleSeconds(kLong) / std::max(about, 1e-9));
  std::vector<double> seconds;
  while (seconds.size() < std::clamp(rounds, kFewest, kMost)) seconds.push_back(TimeOf(once));
  FTUNE_RETURN_IF_ERROR(status);
  return MeanOfRanks(ranks, Median(std::move(seconds)));
}

}  // namespace ftune
