#include "parallel/schedule/zero_bubble.h"

#include <algorithm>

namespace ftune {
namespace {

// `depth`: forwards that a rank takes first for each rank below it, and W that it puts off for each above it.
std::vector<std::vector<Action>> Make(const ScheduleShape& shape, int depth) {
  std::vector<std::vector<Action>> ranks(shape.ranks);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const int first = std::min(depth * (shape.ranks - 1 - rank), shape.microbatches);
    const int lag = depth * rank;
    std::vector<Action>& actions = ranks[rank];
    for (int i = 0; i < first; ++i) actions.push_back({ActionKind::kForward, rank, i});
    for (int i = 0; i < shape.microbatches + lag; ++i) {
      if (first + i < shape.microbatches) actions.push_back({ActionKind::kForward, rank, first + i});
      if (i < shape.microbatches) actions.push_back({ActionKind::kBackwardInput, rank, i});
      if (i >= lag) actions.push_back({ActionKind::kBackwardWeight, rank, i - lag});
    }
  }
  return ranks;
}

}  // namespace

std::vector<std::vector<Action>> MakeZbH1(const ScheduleShape& shape) { return Make(shape, 1); }
std::vector<std::vector<Action>> MakeZbH2(const ScheduleShape& shape) { return Make(shape, 2); }

}  // namespace ftune
