#include "parallel/schedule/pull_ahead.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <utility>

#include "parallel/schedule/simulate.h"
#include "parallel/schedule/walk.h"

namespace ftune {
namespace {

using enum ActionKind;

constexpr double kNever = std::numeric_limits<double>::infinity();

// When W, for which no other rank waits, may come before an action of the list's order.
enum class WeightPolicy : uint8_t {
  kAtOnce,   // whenever the rank would wait
  kThatFit,  // when it is over before that action can begin, as far as is known
  kPutOff,   // as kAtOnce; and where it is its turn, B or F goes first if one can begin by then
};

int LiveChange(const Action& action) {
  return action.kind == kForward ? 1 : action.kind == kBackwardWeight ? -1 : 0;
}

int PeakLive(const std::vector<Action>& actions) {
  int live = 0;
  int peak = 0;
  for (const Action& action : actions) {
    live += LiveChange(action);
    peak = std::max(peak, live);
  }
  return peak;
}

// A list scheduler: always starts what can start first on any rank.
class Puller {
 public:
  Puller(const Schedule& schedule, const ScheduleCosts& costs, WeightPolicy policy)
      : shape_(schedule.shape),
        costs_(costs),
        policy_(policy),
        walk_(schedule),
        ends_(schedule.shape, kNever),
        ranks_(schedule.ranks.size()),
        choices_(schedule.ranks.size()) {
    for (const std::vector<Action>& actions : schedule.ranks) {
      limit_ = std::max(limit_, PeakLive(actions));
      left_.emplace_back(actions.begin(), actions.end());
    }
  }

  std::vector<std::vector<Action>> Run() {
    std::vector<std::vector<Action>> pulled(left_.size());
    for (size_t rank = 0; rank < left_.size(); ++rank) choices_[rank] = Choose(rank);
    for (;;) {
      const auto best = std::min_element(choices_.begin(), choices_.end(),
                                         [](const Choice& a, const Choice& b) { return a.begin < b.begin; });
      if (best->begin == kNever) return pulled;
      const size_t rank = best - choices_.begin();
      const auto at = left_[rank].begin() + best->position;
      const Action action = *at;
      left_[rank].erase(at);
      pulled[rank].push_back(action);
      ranks_[rank].free = best->begin + CostOf(action, costs_);
      ranks_[rank].live += LiveChange(action);
      ends_[action] = ranks_[rank].free;
      choices_[rank] = Choose(rank);
      // Whoever may have waited for it.
      if (action.kind == kForward && action.stage + 1 < shape_.stages()) Renew(action.stage + 1, rank);
      if (action.kind == kBackwardInput && action.stage > 0) Renew(action.stage - 1, rank);
    }
  }

 private:
  struct RankState {
    double free = 0;
    int live = 0;
  };
  struct Choice {
    double begin = kNever;
    size_t position = 0;
  };

  void Renew(int stage, size_t already) {
    const size_t rank = shape_.RankOf(stage);
    if (rank != already) choices_[rank] = Choose(rank);
  }

  double Begin(size_t rank, const Action& action) const {
    double begin = ranks_[rank].free;
    walk_.ForEachNeed(action, [&](const Action& need) {
      const double transfer = shape_.RankOf(need.stage) == rank ? 0 : costs_.transfer;
      begin = std::max(begin, ends_[need] + transfer);
    });
    return begin;
  }

  Choice Choose(size_t rank) const {
    const std::deque<Action>& left = left_[rank];
    Choice best;
    if (left.empty()) return best;
    best.begin = Begin(rank, left.front());
    const double due = best.begin;
    const auto put_off = [&](const Action& action) {
      return policy_ == WeightPolicy::kPutOff && action.kind == kBackwardWeight;
    };
    std::vector<bool> seen(4 * shape_.chunks, false);  // by kind and chunk: their microbatches stay in order
    size_t to_see = 3 * shape_.chunks;                 // F, B and W
    // What the list has before `position` may take more, and must find room beside what is pulled.
    int live = ranks_[rank].live;
    int peak = live;
    for (size_t position = 0; position < left.size() && to_see > 0 &&
                              (best.begin > ranks_[rank].free || put_off(left[best.position]));
         ++position) {
      const Action& action = left[position];
      const size_t stream = static_cast<size_t>(action.kind) * shape_.chunks + shape_.ChunkOf(action.stage);
      if (!seen[stream]) {
        seen[stream] = true;
        --to_see;
        const double begin = Begin(rank, action);
        const bool room = action.kind != kForward || peak < limit_;
        const bool fits = action.kind != kBackwardWeight || policy_ != WeightPolicy::kThatFit ||
                          begin + CostOf(action, costs_) <= due;
        const bool sooner = begin < best.begin || (begin == best.begin && put_off(left[best.position]) &&
                                                   action.kind != kBackwardWeight);
        if (sooner && room && fits) best = {begin, position};
      }
      live += LiveChange(action);
      peak = std::max(peak, live);
    }
    return best;
  }

  const ScheduleShape shape_;
  const ScheduleCosts& costs_;
  const WeightPolicy policy_;
  const ScheduleWalk walk_;  // knows what needs what
  ActionTable<double> ends_;
  std::vector<std::deque<Action>> left_;  // actions leave at or near the front
  std::vector<RankState> ranks_;
  std::vector<Choice> choices_;
  int limit_ = 0;
};

}  // namespace

Schedule PullAheadIfShorter(Schedule schedule, const ScheduleCosts& costs) {
  const auto makespan = [&](const Schedule& candidate) {
    const auto simulation = SimulateSchedule(candidate, costs);
    return simulation.ok() ? simulation->makespan : kNever;
  };
  double shortest = makespan(schedule);
  for (bool shorter = true; shorter;) {
    shorter = false;
    const Schedule from = schedule;
    for (const WeightPolicy policy : {WeightPolicy::kThatFit, WeightPolicy::kAtOnce, WeightPolicy::kPutOff}) {
      Schedule pulled{from.shape, Puller(from, costs, policy).Run()};
      const double time = makespan(pulled);
      // Not for what rounding makes of the same order of events.
      if (time >= shortest * (1 - 1e-9)) continue;
      shortest = time;
      schedule = std::move(pulled);
      shorter = true;
    }
  }
  return schedule;
}

}  // namespace ftune
