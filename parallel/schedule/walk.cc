#include "parallel/schedule/walk.h"

namespace ftune {

using enum ActionKind;

ScheduleWalk::ScheduleWalk(const Schedule& schedule, SendMode mode)
    : schedule_(schedule),
      mode_(mode),
      listed_(schedule.shape, false),
      done_(schedule.shape, false),
      next_(schedule.ranks.size(), 0) {
  for (const std::vector<Action>& actions : schedule.ranks) {
    for (const Action& action : actions) {
      listed_[action] = true;
      has_transfers_ = has_transfers_ || IsTransfer(action.kind);
    }
  }
}

bool ScheduleWalk::Run(const std::function<void(int rank, int position)>& visit) {
  const int ranks = static_cast<int>(next_.size());
  bool all = false;
  for (bool moved = true; moved && !all;) {
    moved = false;
    all = true;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<Action>& actions = schedule_.ranks[rank];
      int& position = next_[rank];
      for (; position < actions.size() && Ready(actions[position]); ++position) {
        visit(rank, position);
        done_[actions[position]] = true;
        moved = true;
      }
      all = all && position == actions.size();
    }
  }
  return all;
}

Action ScheduleWalk::InputGradient(int stage, int microbatch) const {
  const Action fused{kBackward, stage, microbatch};
  return listed_[fused] ? fused : Action{kBackwardInput, stage, microbatch};
}

void ScheduleWalk::ForEachNeed(const Action& action, const std::function<void(const Action&)>& use) const {
  const ScheduleShape& shape = schedule_.shape;
  const auto [kind, stage, microbatch] = action;
  const auto crosses = [&](int from, int to) {
    return has_transfers_ && shape.RankOf(from) != shape.RankOf(to);
  };
  if (kind == kForward && stage > 0) {
    use({crosses(stage - 1, stage) ? kSendActivation : kForward, stage - 1, microbatch});
  }
  if (MakesInputGradient(kind)) {
    use({kForward, stage, microbatch});
    if (stage + 1 < shape.stages()) {
      use(crosses(stage + 1, stage) ? Action{kSendGradient, stage + 1, microbatch}
                                    : InputGradient(stage + 1, microbatch));
    }
  }
  if (kind == kBackwardWeight) use({kBackwardInput, stage, microbatch});
  if (mode_ == SendMode::kRendezvous && kind == kSendActivation) {
    use({kReceiveActivation, stage + 1, microbatch});
  }
  if (mode_ == SendMode::kRendezvous && kind == kSendGradient) use({kReceiveGradient, stage - 1, microbatch});
}

bool ScheduleWalk::Ready(const Action& action) const {
  bool ready = true;
  ForEachNeed(action, [&](const Action& need) { ready = ready && done_[need]; });
  return ready;
}

}  // namespace ftune
