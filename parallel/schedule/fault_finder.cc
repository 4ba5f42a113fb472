#include "parallel/schedule/fault_finder.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/strings.h"

namespace ftune {
namespace {

using enum ActionKind;

bool IsUnit(ActionKind kind) { return kind == kGather || kind == kRelease; }

Action Partner(const Action& send) {
  return send.kind == kSendActivation ? Action{kReceiveActivation, send.stage + 1, send.microbatch}
                                      : Action{kReceiveGradient, send.stage - 1, send.microbatch};
}

}  // namespace

FaultFinder::FaultFinder(const Schedule& schedule, int first_backward_stage)
    : schedule_(schedule),
      shape_(schedule.shape),
      first_backward_stage_(first_backward_stage),
      position_(schedule.shape, -1) {
  for (const std::vector<Action>& actions : schedule.ranks) {
    for (const Action& action : actions) {
      has_transfers_ = has_transfers_ || IsTransfer(action.kind);
      has_units_ = has_units_ || IsUnit(action.kind);
      has_reductions_ = has_reductions_ || action.kind == kReduce;
    }
  }
}

bool FaultFinder::Crosses(int from, int to) const {
  return std::min(from, to) >= 0 && std::max(from, to) < shape_.stages() &&
         shape_.RankOf(from) != shape_.RankOf(to);
}

bool FaultFinder::Sends(const Action& send) const {
  const int to = Partner(send).stage;
  return Crosses(send.stage, to) && (send.kind == kSendActivation || HasBackward(to));
}

std::optional<ScheduleFault> FaultFinder::FindWrongAction() {
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    for (int position = 0; position < schedule_.ranks[rank].size(); ++position) {
      if (auto fault = WrongAction(rank, position)) return fault;
    }
  }
  return std::nullopt;
}

std::optional<ScheduleFault> FaultFinder::WrongAction(int rank, int position) {
  const Action& action = schedule_.ranks[rank][position];
  const auto [kind, stage, microbatch] = action;
  const auto fault = [&](std::string message, std::string hint = "") {
    return ScheduleFault{rank, position, std::move(message), std::move(hint)};
  };
  if (stage < 0 || stage >= shape_.stages()) {
    return fault(StrCat("there is no stage ", stage, ", only 0 to ", shape_.stages() - 1));
  }
  if (HasMicrobatch(kind) ? microbatch < 0 || microbatch >= shape_.microbatches : microbatch != -1) {
    return fault(StrCat("there is no microbatch ", microbatch, ", only 0 to ", shape_.microbatches - 1));
  }
  if (shape_.RankOf(stage) != rank)
    return fault(StrCat("stage ", stage, " is on rank ", shape_.RankOf(stage)));
  if (!HasBackward(stage) && (MakesInputGradient(kind) || MakesParameterGradients(kind) || kind == kReduce)) {
    return fault(
        StrCat("stage ", stage, " has no backward: the first that has one is ", first_backward_stage_));
  }
  if (IsTransfer(kind)) {
    const Action send = IsSend(kind)                 ? action
                        : kind == kReceiveActivation ? Action{kSendActivation, stage - 1, microbatch}
                                                     : Action{kSendGradient, stage + 1, microbatch};
    if (!Sends(send)) {
      return fault("there is nothing to transfer",
                   "only stages side by side on different ranks send each other "
                   "activations, and gradients where both have a backward");
    }
  }
  if (IsUnit(kind)) return std::nullopt;  // may come again
  if (Listed(action)) return fault(StrCat("it is there already, as action ", position_[action] + 1));
  const Action fused{kBackward, stage, microbatch};
  for (const ActionKind half : {kBackwardInput, kBackwardWeight}) {
    const Action other{half, stage, microbatch};
    const Action& there = kind == kBackward ? other : fused;
    if ((kind == kBackward || kind == half) && Listed(there)) {
      return fault(
          StrCat("its half is done already, by action ", position_[there] + 1, " (", ToString(there), ")"),
          "BW is both B and W");
    }
  }
  position_[action] = position;
  return std::nullopt;
}

std::optional<ScheduleFault> FaultFinder::FindMissing() const {
  for (int stage = 0; stage < shape_.stages(); ++stage) {
    const auto missing = [&](const Action& action, std::string_view or_else = "") {
      return ScheduleFault{shape_.RankOf(stage), -1, StrCat(ToString(action), or_else, " is missing"), ""};
    };
    for (int microbatch = 0; microbatch < shape_.microbatches; ++microbatch) {
      const auto of = [&](ActionKind kind) { return Action{kind, stage, microbatch}; };
      if (!Listed(of(kForward))) return missing(of(kForward));
      if (HasBackward(stage) && !Listed(of(kBackward))) {
        const bool input = Listed(of(kBackwardInput));
        const bool weight = Listed(of(kBackwardWeight));
        if (!input && !weight) return missing(of(kBackward), ", or B and W,");
        if (!input) return missing(of(kBackwardInput));
        if (!weight) return missing(of(kBackwardWeight));
      }
      if (!has_transfers_) continue;
      for (const ActionKind kind : {kSendActivation, kSendGradient}) {
        const Action send = of(kind);
        if (!Sends(send)) continue;
        if (!Listed(send)) return missing(send);
        const Action receive = Partner(send);
        if (Listed(receive)) continue;
        return ScheduleFault{shape_.RankOf(receive.stage), -1, StrCat(ToString(receive), " is missing"),
                             StrCat("rank ", shape_.RankOf(stage), " has its send, ", ToString(send))};
      }
    }
  }
  return std::nullopt;
}

std::optional<ScheduleFault> FaultFinder::FindWrongOrder() const {
  const auto gradient_of = [&](int stage, int microbatch) {
    const Action fused{kBackward, stage, microbatch};
    return Listed(fused) ? fused : Action{kBackwardInput, stage, microbatch};
  };
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    for (int position = 0; position < schedule_.ranks[rank].size(); ++position) {
      const auto [kind, stage, microbatch] = schedule_.ranks[rank][position];
      std::vector<Action> needs;
      if (kind == kForward && stage > 0) {
        if (shape_.RankOf(stage - 1) == rank) {
          needs.push_back({kForward, stage - 1, microbatch});
        } else if (has_transfers_) {
          needs.push_back({kReceiveActivation, stage, microbatch});
        }
      }
      if (MakesInputGradient(kind)) {
        needs.push_back({kForward, stage, microbatch});
        if (stage + 1 < shape_.stages()) {
          if (shape_.RankOf(stage + 1) == rank) {
            needs.push_back(gradient_of(stage + 1, microbatch));
          } else if (has_transfers_) {
            needs.push_back({kReceiveGradient, stage, microbatch});
          }
        }
      }
      if (kind == kBackwardWeight) needs.push_back({kBackwardInput, stage, microbatch});
      if (kind == kSendActivation) needs.push_back({kForward, stage, microbatch});
      if (kind == kSendGradient) needs.push_back(gradient_of(stage, microbatch));
      for (const Action& need : needs) {
        if (position_[need] < position) continue;
        return ScheduleFault{
            rank, position,
            StrCat("it comes before ", ToString(need), " (action ", position_[need] + 1, "), which it needs"),
            ""};
      }
    }
  }
  return std::nullopt;
}

std::optional<ScheduleFault> FaultFinder::FindWrongUnit() const {
  if (!has_units_) return std::nullopt;
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    std::map<int, int> gathered;  // stage to position
    for (int position = 0; position < schedule_.ranks[rank].size(); ++position) {
      const Action& action = schedule_.ranks[rank][position];
      const auto since = gathered.find(action.stage);
      const bool whole = since != gathered.end();
      const auto fault = [&](std::string message) {
        return ScheduleFault{rank, position, std::move(message), ""};
      };
      if (action.kind == kGather) {
        if (whole) return fault(StrCat("the stage is gathered already, since action ", since->second + 1));
        gathered[action.stage] = position;
      } else if (action.kind == kRelease) {
        if (!whole) return fault("the stage is not gathered");
        gathered.erase(since);
      } else if (IsCompute(action.kind) && !whole) {
        return fault(StrCat("its stage is not gathered; G", action.stage, " must come before"));
      }
    }
    for (const auto& [stage, position] : gathered) {
      return ScheduleFault{rank, position, "the stage is never released", ""};
    }
  }
  return std::nullopt;
}

std::optional<ScheduleFault> FaultFinder::FindWrongReduction() const {
  if (!has_reductions_) return std::nullopt;
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    const std::vector<Action>& actions = schedule_.ranks[rank];
    std::map<int, int> unreduced;  // stage to the position of its gradients
    for (int position = 0; position < actions.size(); ++position) {
      const auto [kind, stage, microbatch] = actions[position];
      if (MakesParameterGradients(kind)) unreduced[stage] = position;
      if (kind != kReduce) continue;
      const Action* before = position > 0 ? &actions[position - 1] : nullptr;
      if (before == nullptr || !MakesParameterGradients(before->kind) || before->stage != stage ||
          before->microbatch != microbatch) {
        return ScheduleFault{rank, position, "it does not come directly after the BW or W that it reduces",
                             ""};
      }
      unreduced.erase(stage);
    }
    for (const auto& [stage, position] : unreduced) {
      return ScheduleFault{rank, position, "these last gradients of the stage are never reduced",
                           StrCat("D", stage, ".", actions[position].microbatch, " must follow")};
    }
  }
  return std::nullopt;
}

std::optional<ScheduleFault> FaultFinder::FindWrongLink() const {
  std::map<std::pair<int, int>, std::vector<Action>> expected;  // receives, by sender and receiver
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    for (const Action& action : schedule_.ranks[rank]) {
      if (!IsSend(action.kind)) continue;
      const Action receive = Partner(action);
      expected[{rank, shape_.RankOf(receive.stage)}].push_back(receive);
    }
  }
  std::map<std::pair<int, int>, size_t> received;
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    for (int position = 0; position < schedule_.ranks[rank].size(); ++position) {
      const Action& action = schedule_.ranks[rank][position];
      if (!IsReceive(action.kind)) continue;
      const int from = shape_.RankOf(action.kind == kReceiveActivation ? action.stage - 1 : action.stage + 1);
      const Action& due = expected[{from, rank}][received[{from, rank}]++];
      if (action == due) continue;
      return ScheduleFault{rank, position,
                           StrCat("receives from rank ", from,
                                  " must come in the order in which it sends: here ", ToString(due)),
                           ""};
    }
  }
  return std::nullopt;
}

}  // namespace ftune
