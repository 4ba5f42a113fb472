#include "parallel/schedule/check.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "parallel/schedule/fault_finder.h"
#include "parallel/schedule/walk.h"

namespace ftune {
namespace {

using enum ActionKind;

std::optional<ScheduleFault> FindWrongShape(const Schedule& schedule, int first_backward_stage) {
  const ScheduleShape& shape = schedule.shape;
  const auto fault = [](std::string message) { return ScheduleFault{0, -1, std::move(message), ""}; };
  if (shape.ranks < 1 || shape.chunks < 1 || shape.microbatches < 1) {
    return fault("a schedule has at least one rank, one chunk and one microbatch");
  }
  if (shape.order == StageOrder::kV && shape.chunks != 2) return fault("a V has two chunks");
  if (schedule.ranks.size() != static_cast<size_t>(shape.ranks)) {
    return fault(StrCat("there are ", schedule.ranks.size(), " lists for ", shape.ranks, " ranks"));
  }
  if (first_backward_stage < 0 || first_backward_stage > shape.stages()) {
    return fault(StrCat("there is no stage ", first_backward_stage, " to begin backward with"));
  }
  return std::nullopt;
}

// Who waits for whom, beginning with a rank that did not come to its end, until a rank comes again.
ScheduleFault DescribeDeadlock(const Schedule& schedule, const ScheduleWalk& walk) {
  const auto next_of = [&](int rank) -> const Action& { return schedule.ranks[rank][walk.next()[rank]]; };
  const auto blocker_of = [&](const Action& action) {
    Action blocker;
    walk.ForEachNeed(action, [&](const Action& need) {
      if (!walk.done(need)) blocker = need;
    });
    return blocker;
  };
  int rank = 0;
  while (walk.next()[rank] == schedule.ranks[rank].size()) ++rank;
  // Into the circle first: those before only wait for it.
  for (int i = 0; i < schedule.shape.ranks; ++i)
    rank = schedule.shape.RankOf(blocker_of(next_of(rank)).stage);
  ScheduleFault fault{rank, walk.next()[rank], "deadlock: ", ""};
  int at = rank;
  do {
    const Action blocker = blocker_of(next_of(at));
    StrAppend(fault.message, at == rank ? "" : "; ", ToString(next_of(at)), " on rank ", at, " waits for ",
              ToString(blocker));
    at = schedule.shape.RankOf(blocker.stage);
    if (next_of(at) != blocker) StrAppend(fault.message, ", which comes after ", ToString(next_of(at)));
  } while (at != rank);
  return fault;
}

std::optional<ScheduleFault> FindDeadlock(const Schedule& schedule, SendMode mode) {
  ScheduleWalk walk(schedule, mode);
  if (walk.Run([](int, int) {})) return std::nullopt;
  return DescribeDeadlock(schedule, walk);
}

RankFacts CountLive(const ScheduleShape& shape, const std::vector<Action>& actions,
                    int first_backward_stage) {
  RankFacts facts{.peak_live_of_chunk = std::vector<int>(shape.chunks, 0)};
  std::vector<int> live_of_chunk(shape.chunks, 0);
  int live = 0;
  int until_input = 0;
  int until_weight = 0;
  for (const auto& [kind, stage, microbatch] : actions) {
    if (stage < first_backward_stage) continue;
    int& of_chunk = live_of_chunk[shape.ChunkOf(stage)];
    const bool forward = kind == kForward;
    live += forward;
    of_chunk += forward;
    until_input += forward;
    facts.peak_live = std::max(facts.peak_live, live);
    facts.peak_until_input = std::max(facts.peak_until_input, until_input);
    int& peak_of_chunk = facts.peak_live_of_chunk[shape.ChunkOf(stage)];
    peak_of_chunk = std::max(peak_of_chunk, of_chunk);
    until_input -= MakesInputGradient(kind);
    until_weight += kind == kBackwardInput;
    facts.peak_until_weight = std::max(facts.peak_until_weight, until_weight);
    until_weight -= kind == kBackwardWeight;
    live -= MakesParameterGradients(kind);
    of_chunk -= MakesParameterGradients(kind);
  }
  return facts;
}

}  // namespace

std::optional<ScheduleFault> FindFault(const Schedule& schedule, int first_backward_stage) {
  if (auto fault = FindWrongShape(schedule, first_backward_stage)) return fault;
  FaultFinder finder(schedule, first_backward_stage);
  if (auto fault = finder.FindWrongAction()) return fault;
  if (auto fault = finder.FindMissing()) return fault;
  if (auto fault = finder.FindWrongOrder()) return fault;
  if (auto fault = finder.FindWrongUnit()) return fault;
  if (auto fault = finder.FindWrongReduction()) return fault;
  if (auto fault = finder.FindWrongLink()) return fault;
  return FindDeadlock(schedule, SendMode::kBuffered);
}

absl::StatusOr<ScheduleFacts> CheckSchedule(const Schedule& schedule, int first_backward_stage) {
  if (const auto fault = FindFault(schedule, first_backward_stage)) {
    std::string where = StrCat("wrong schedule: rank ", fault->rank);
    if (fault->position >= 0) {
      StrAppend(where, ", action ", fault->position + 1, " (",
                ToString(schedule.ranks[fault->rank][fault->position]), ")");
    }
    return DataError({.message = StrCat(where, ": ", fault->message), .hint = fault->hint});
  }
  ScheduleFacts facts;
  for (const std::vector<Action>& actions : schedule.ranks) {
    facts.ranks.push_back(CountLive(schedule.shape, actions, first_backward_stage));
    for (const Action& action : actions) {
      facts.has_transfers = facts.has_transfers || IsTransfer(action.kind);
      facts.has_units = facts.has_units || action.kind == kGather;
    }
  }
  if (!facts.has_transfers) return facts;
  if (const auto fault = FindDeadlock(schedule, SendMode::kRendezvous)) {
    facts.needs_buffered_sends = true;
    facts.rendezvous_deadlock = fault->message;
  }
  return facts;
}

}  // namespace ftune
