#include "parallel/schedule/v_shaped.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>

namespace ftune {
namespace {

// Microbatches of each kind and chunk in order, as a rank's list takes them.
class RankList {
 public:
  RankList(const ScheduleShape& shape, int rank) : shape_(shape), rank_(rank) {}

  // The next microbatch of that kind and chunk. Beyond the last it adds nothing: lists are laid out for as
  // many microbatches as the pattern needs, and those that are not there are left out.
  void Add(ActionKind kind, int chunk) {
    const int microbatch = counts_[static_cast<size_t>(kind)][chunk]++;
    if (microbatch < shape_.microbatches) {
      actions_.push_back({kind, shape_.StageOf(rank_, chunk), microbatch});
    }
  }
  int count(ActionKind kind, int chunk) const { return counts_[static_cast<size_t>(kind)][chunk]; }
  std::vector<Action> Take() { return std::move(actions_); }

 private:
  const ScheduleShape& shape_;
  int rank_;
  std::array<std::array<int, 2>, 4> counts_ = {};  // by kind and chunk
  std::vector<Action> actions_;
};

// Where on a rank the building block has its four actions that others wait for.
struct Block {
  int forward0 = 0;
  int forward1 = 0;
  int backward1 = 0;
  int backward0 = 0;
};
constexpr int kPeriod = 6;

std::vector<std::vector<Action>> Repeat(const ScheduleShape& shape, Block (*block_of)(int ranks, int rank)) {
  using enum ActionKind;
  struct Slot {
    ActionKind kind;
    int chunk;
  };
  std::vector<std::vector<Action>> ranks;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const Block block = block_of(shape.ranks, rank);
    std::map<int, Slot> slots;
    for (int microbatch = 0; microbatch < shape.microbatches; ++microbatch) {
      const int shift = kPeriod * microbatch;
      slots[shift + block.forward0] = {kForward, 0};
      slots[shift + block.forward1] = {kForward, 1};
      slots[shift + block.backward1] = {kBackwardInput, 1};
      slots[shift + block.backward0] = {kBackwardInput, 0};
    }
    RankList list(shape, rank);
    std::deque<int> weights;  // chunks of the W that are due
    const auto add_weights = [&](int free) {
      for (; free > 0 && !weights.empty(); --free) {
        list.Add(kBackwardWeight, weights.front());
        weights.pop_front();
      }
    };
    int next = 0;
    for (const auto& [time, slot] : slots) {
      add_weights(time - next);
      list.Add(slot.kind, slot.chunk);
      if (slot.kind == kBackwardInput) weights.push_back(slot.chunk);
      next = time + 1;
    }
    add_weights(static_cast<int>(weights.size()));
    ranks.push_back(list.Take());
  }
  return ranks;
}

// The pause before the backward down the ranks keeps two of a rank's four actions from the same place in the
// period: it is there for the numbers of ranks for which they would meet.
Block MinBlock(int ranks, int rank) {
  const int pause = ranks % 3 == 0 ? 2 : 0;
  return {rank, 2 * ranks - 1 - rank, 2 * ranks + pause + rank, 4 * ranks + pause - 1 - rank};
}

Block HalfBlock(int ranks, int rank) {
  const int pause = ranks % 2 == 0 ? 3 : 0;
  return {2 * rank, 3 * ranks - 2 - rank, 3 * ranks - 1 + pause + 2 * rank, 6 * ranks - 2 + pause - rank};
}

}  // namespace

std::vector<std::vector<Action>> MakeZbV(const ScheduleShape& shape) {
  using enum ActionKind;
  const int p = shape.ranks;
  const int microbatches = std::max(shape.microbatches, 2 * p - 1);
  std::vector<std::vector<Action>> ranks;
  for (int rank = 0; rank < p; ++rank) {
    RankList list(shape, rank);
    const auto backward = [&](int chunk) {
      list.Add(kBackwardInput, chunk);
      list.Add(kBackwardWeight, chunk);
    };
    // Until the first microbatch is back from the ranks below, and then until its gradient has come down from
    // rank 0.
    for (int i = 0; i < 2 * (p - rank) - 1; ++i) list.Add(kForward, 0);
    for (int i = 0; i < rank; ++i) {
      list.Add(kForward, 1);
      list.Add(kForward, 0);
    }
    // Until the first gradient is back.
    for (int i = 0; i < p - rank; ++i) {
      list.Add(kForward, 1);
      backward(1);
    }
    while (list.count(kForward, 1) < microbatches) {
      if (list.count(kForward, 0) < microbatches) list.Add(kForward, 0);
      backward(0);
      list.Add(kForward, 1);
      backward(1);
    }
    // The last gradients first: the ranks before wait for them.
    for (int i = 0; i < rank; ++i) {
      list.Add(kBackwardInput, 0);
      list.Add(kBackwardInput, 1);
    }
    for (int i = 0; i < p - rank; ++i) backward(0);
    for (const int chunk : {1, 0}) {
      while (list.count(kBackwardWeight, chunk) < microbatches) list.Add(kBackwardWeight, chunk);
    }
    ranks.push_back(list.Take());
  }
  return ranks;
}

std::vector<std::vector<Action>> MakeVHalf(const ScheduleShape& shape) { return Repeat(shape, HalfBlock); }
std::vector<std::vector<Action>> MakeVMin(const ScheduleShape& shape) { return Repeat(shape, MinBlock); }

}  // namespace ftune
