#include "parallel/schedule/simulate.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "parallel/schedule/walk.h"

namespace ftune {
namespace {

using enum ActionKind;

class Simulator {
 public:
  Simulator(const Schedule& schedule, const ScheduleCosts& costs, const LinkCosts& link)
      : schedule_(schedule),
        costs_(costs),
        link_(link),
        walk_(schedule),
        ends_(schedule.shape, 0.0),
        arrivals_(schedule.shape, 0.0),
        now_(schedule.ranks.size(), 0.0),
        simulation_{.ranks = std::vector<RankSimulation>(schedule.ranks.size())} {}

  absl::StatusOr<Simulation> Run() {
    if (!walk_.Run([this](int rank, int position) { Visit(rank, schedule_.ranks[rank][position]); })) {
      for (size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
        const std::vector<Action>& actions = schedule_.ranks[rank];
        const int position = walk_.next()[rank];
        if (position == actions.size()) continue;
        return DataError(
            {.message = StrCat("a schedule that does not come to its end cannot be timed: rank ", rank,
                               " waits at action ", position + 1, ", ", ToString(actions[position])),
             .hint = "check it first"});
      }
    }
    Finish();
    return std::move(simulation_);
  }

 private:
  // When what `need` makes is where `rank` can use it.
  double Available(int rank, const Action& need) const {
    return schedule_.shape.RankOf(need.stage) == rank ? ends_[need] : arrivals_[Sent(need)];
  }

  // The send of what a compute action makes, or the send itself.
  static Action Sent(const Action& made) {
    if (IsSend(made.kind)) return made;
    return {made.kind == kForward ? kSendActivation : kSendGradient, made.stage, made.microbatch};
  }

  // Where the output of a compute action goes, if to another rank.
  std::optional<int> Receiver(const Action& send) const {
    const int to = send.kind == kSendActivation ? send.stage + 1 : send.stage - 1;
    if (to < 0 || to >= schedule_.shape.stages()) return std::nullopt;
    const int rank = schedule_.shape.RankOf(to);
    return rank == schedule_.shape.RankOf(send.stage) ? std::nullopt : std::optional(rank);
  }

  TimedAction Send(int rank, const Action& send, int to) {
    double& link_free = links_[{rank, to}];
    const double begin = std::max(now_[rank], link_free);
    link_free = begin + link_.seconds_per_transfer;
    arrivals_[send] = link_free + link_.latency;
    return {send, begin, arrivals_[send]};
  }

  void Visit(int rank, const Action& action) {
    std::vector<TimedAction>& timed = simulation_.ranks[rank].actions;
    double& now = now_[rank];
    if (IsSend(action.kind)) {
      timed.push_back(Send(rank, action, Receiver(action).value_or(rank)));
      return;
    }
    if (!IsCompute(action.kind)) {
      timed.push_back({action, now, now});
      return;
    }
    double begin = now;
    walk_.ForEachNeed(action, [&](const Action& need) { begin = std::max(begin, Available(rank, need)); });
    now = begin + CostOf(action, costs_);
    ends_[action] = now;
    timed.push_back({action, begin, now});
    simulation_.ranks[rank].busy += now - begin;
    if (walk_.has_transfers() || action.kind == kBackwardWeight) return;
    const Action send = Sent(action);
    if (const std::optional<int> to = Receiver(send)) Send(rank, send, *to);
  }

  void Finish() {
    for (const double now : now_) simulation_.makespan = std::max(simulation_.makespan, now);
    double busy = 0;
    for (RankSimulation& rank : simulation_.ranks) {
      for (TimedAction& timed : rank.actions) {
        const auto [kind, stage, microbatch] = timed.action;
        if (kind == kReceiveActivation) timed.end = arrivals_[{kSendActivation, stage - 1, microbatch}];
        if (kind == kReceiveGradient) timed.end = arrivals_[{kSendGradient, stage + 1, microbatch}];
      }
      rank.bubble = simulation_.makespan - rank.busy;
      const auto compute = [](const TimedAction& timed) { return IsCompute(timed.action.kind); };
      const auto first = std::find_if(rank.actions.begin(), rank.actions.end(), compute);
      const auto last = std::find_if(rank.actions.rbegin(), rank.actions.rend(), compute);
      if (first != rank.actions.end()) rank.waiting = last->end - first->begin - rank.busy;
      busy += rank.busy;
    }
    const double all = simulation_.makespan * static_cast<double>(simulation_.ranks.size());
    if (all > 0) simulation_.bubble_ratio = 1 - busy / all;
  }

  const Schedule& schedule_;
  const ScheduleCosts& costs_;
  const LinkCosts& link_;
  ScheduleWalk walk_;
  ActionTable<double> ends_;      // of compute actions
  ActionTable<double> arrivals_;  // of sends
  std::vector<double> now_;
  std::map<std::pair<int, int>, double> links_;  // when each is free
  Simulation simulation_;
};

double PeakActivations(const std::vector<Action>& actions, const std::vector<ActivationWeight>& weights,
                       const std::vector<bool>& keeps) {
  double held = 0;
  double peak = 0;
  for (const Action& action : actions) {
    if (!keeps[action.stage]) continue;
    const ActivationWeight& weight = weights[weights.size() == 1 ? 0 : action.stage];
    if (action.kind == kForward) held += weight.until_input + weight.until_weight;
    peak = std::max(peak, held);
    if (MakesInputGradient(action.kind)) held -= weight.until_input;
    if (MakesParameterGradients(action.kind)) held -= weight.until_weight;
  }
  return peak;
}

}  // namespace

absl::StatusOr<Simulation> SimulateSchedule(const Schedule& schedule, const ScheduleCosts& costs,
                                            const LinkCosts& link,
                                            const std::vector<ActivationWeight>& activations) {
  const int stages = schedule.shape.stages();
  FTUNE_RETURN_IF_ERROR(CheckCosts(costs, stages));
  if (activations.size() != 1 && activations.size() != static_cast<size_t>(stages)) {
    return UsageError({.message = "the activations are not those of this schedule's stages",
                       .found = StrCat(activations.size(), " stages"),
                       .expected = StrCat(stages, ", or one for all")});
  }
  FTUNE_ASSIGN_OR_RETURN(Simulation simulation, Simulator(schedule, costs, link).Run());
  std::vector<bool> keeps(stages, false);
  for (const std::vector<Action>& actions : schedule.ranks) {
    for (const Action& action : actions) {
      if (MakesInputGradient(action.kind)) keeps[action.stage] = true;
    }
  }
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    simulation.ranks[rank].peak_activations = PeakActivations(schedule.ranks[rank], activations, keeps);
  }
  return simulation;
}

absl::StatusOr<Simulation> SimulateSchedule(const Schedule& schedule, const ScheduleCosts& costs) {
  return SimulateSchedule(schedule, costs, {.latency = costs.transfer});
}

}  // namespace ftune
