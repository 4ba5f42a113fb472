#include "parallel/schedule/fused.h"

#include <algorithm>

namespace ftune {
namespace {

struct ChunkMicrobatch {
  int chunk = 0;
  int microbatch = 0;
};

// Sizes of the groups in which the microbatches go through the chunks: none larger than one before it, since
// a backward of a larger group would come before its forward.
std::vector<int> GroupSizes(const ScheduleShape& shape) {
  const int groups = std::max(1, shape.microbatches / shape.ranks);
  std::vector<int> sizes(groups, shape.microbatches / groups);
  for (int i = 0; i < shape.microbatches % groups; ++i) ++sizes[i];
  return sizes;
}

// The order in which every rank takes its forwards. Backwards take the chunks from the last.
std::vector<ChunkMicrobatch> ForwardOrder(const ScheduleShape& shape, const std::vector<int>& groups) {
  std::vector<ChunkMicrobatch> order;
  int first = 0;
  for (const int size : groups) {
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      for (int i = 0; i < size; ++i) order.push_back({chunk, first + i});
    }
    first += size;
  }
  return order;
}

std::vector<Action> Alternate(const ScheduleShape& shape, int rank, const std::vector<ChunkMicrobatch>& order,
                              int forwards_first) {
  std::vector<Action> actions;
  const int total = static_cast<int>(order.size());
  const auto forward = [&](int i) {
    actions.push_back({ActionKind::kForward, shape.StageOf(rank, order[i].chunk), order[i].microbatch});
  };
  const int first = std::min(forwards_first, total);
  for (int i = 0; i < first; ++i) forward(i);
  for (int i = 0; i < total; ++i) {
    if (first + i < total) forward(first + i);
    actions.push_back(
        {ActionKind::kBackward, shape.StageOf(rank, shape.chunks - 1 - order[i].chunk), order[i].microbatch});
  }
  return actions;
}

}  // namespace

std::vector<std::vector<Action>> MakeGPipe(const ScheduleShape& shape) {
  const auto order = ForwardOrder(shape, {shape.microbatches});
  std::vector<std::vector<Action>> ranks;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    ranks.push_back(Alternate(shape, rank, order, shape.microbatches));
  }
  return ranks;
}

std::vector<std::vector<Action>> Make1F1B(const ScheduleShape& shape) {
  const std::vector<int> groups = GroupSizes(shape);
  const auto order = ForwardOrder(shape, groups);
  std::vector<std::vector<Action>> ranks;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    // A microbatch is away for one forward for each rank below; with chunks two ranks apart for each, so that
    // the backward that comes in when a forward ends was made while that forward ran.
    const int below = shape.ranks - 1 - rank;
    const int first = shape.chunks == 1 ? below : 2 * below + (shape.chunks - 1) * groups.front();
    ranks.push_back(Alternate(shape, rank, order, first));
  }
  return ranks;
}

}  // namespace ftune
