#include "parallel/schedule/schedule.h"

#include <array>
#include <cmath>

#include "base/error.h"
#include "base/strings.h"
#include "parallel/schedule/fused.h"
#include "parallel/schedule/pull_ahead.h"
#include "parallel/schedule/v_shaped.h"
#include "parallel/schedule/zero_bubble.h"

namespace ftune {
namespace {

struct KindEntry {
  std::string_view name;
  int chunks;  // 0: any
  StageOrder order;
  std::vector<std::vector<Action>> (*make)(const ScheduleShape& shape);
  bool split;  // backward comes in two halves, which costs may move
};

// In the order of ScheduleKind.
constexpr std::array<KindEntry, 8> kKinds = {{{"gpipe", 1, StageOrder::kLoop, MakeGPipe, false},
                                              {"1f1b", 1, StageOrder::kLoop, Make1F1B, false},
                                              {"interleaved", 0, StageOrder::kLoop, Make1F1B, false},
                                              {"zb-h1", 1, StageOrder::kLoop, MakeZbH1, true},
                                              {"zb-h2", 1, StageOrder::kLoop, MakeZbH2, true},
                                              {"zb-v", 2, StageOrder::kV, MakeZbV, true},
                                              {"v-half", 2, StageOrder::kV, MakeVHalf, true},
                                              {"v-min", 2, StageOrder::kV, MakeVMin, true}}};

// Stages times microbatches: beyond it the lists would take gigabytes.
constexpr int64_t kMaxCells = int64_t{1} << 24;

}  // namespace

std::string_view ToString(ScheduleKind kind) { return kKinds[static_cast<size_t>(kind)].name; }

std::optional<ScheduleKind> FindScheduleKind(std::string_view name) {
  for (const ScheduleKind kind : ScheduleKinds()) {
    if (ToString(kind) == name) return kind;
  }
  return std::nullopt;
}

int ChunksOf(ScheduleKind kind) { return kKinds[static_cast<size_t>(kind)].chunks; }

const std::vector<ScheduleKind>& ScheduleKinds() {
  static const std::vector<ScheduleKind> kinds = [] {
    std::vector<ScheduleKind> all;
    for (size_t i = 0; i < kKinds.size(); ++i) all.push_back(static_cast<ScheduleKind>(i));
    return all;
  }();
  return kinds;
}

double CostOf(const Action& action, const ScheduleCosts& costs) {
  const StageCosts& stage = costs.Of(action.stage);
  switch (action.kind) {
    case ActionKind::kForward:
      return stage.forward;
    case ActionKind::kBackward:
      return stage.backward_input + stage.backward_weight;
    case ActionKind::kBackwardInput:
      return stage.backward_input;
    case ActionKind::kBackwardWeight:
      return stage.backward_weight;
    default:
      return 0;
  }
}

absl::Status CheckCosts(const ScheduleCosts& costs, int stages) {
  if (costs.stages.size() != 1 && costs.stages.size() != static_cast<size_t>(stages)) {
    return UsageError({.message = "the costs are not those of this schedule's stages",
                       .found = StrCat(costs.stages.size(), " stages"),
                       .expected = StrCat(stages, ", or one for all")});
  }
  const auto good = [](double cost) { return std::isfinite(cost) && cost >= 0; };
  for (size_t i = 0; i < costs.stages.size(); ++i) {
    const StageCosts& stage = costs.stages[i];
    for (const double cost : {stage.forward, stage.backward_input, stage.backward_weight}) {
      if (good(cost)) continue;
      return UsageError({.message = StrCat("a cost of stage ", i, " is not a time"), .found = StrCat(cost)});
    }
  }
  if (good(costs.transfer)) return absl::OkStatus();
  return UsageError({.message = "the cost of a transfer is not a time", .found = StrCat(costs.transfer)});
}

absl::StatusOr<Schedule> MakeSchedule(ScheduleKind kind, int ranks, int chunks, int microbatches,
                                      const ScheduleCosts& costs) {
  const KindEntry& entry = kKinds[static_cast<size_t>(kind)];
  if (ranks < 1 || chunks < 1 || microbatches < 1) {
    return UsageError({.message = "a pipeline needs ranks, chunks and microbatches",
                       .found = StrCat(ranks, " ranks, ", chunks, " chunks, ", microbatches, " microbatches"),
                       .expected = "at least one of each"});
  }
  if (entry.chunks != 0 && chunks != entry.chunks) {
    return UsageError({.message = StrCat("schedule ", entry.name, " cuts a rank's part of the model into ",
                                         entry.chunks, entry.chunks == 1 ? " chunk" : " chunks"),
                       .found = StrCat(chunks),
                       .expected = StrCat(entry.chunks),
                       .hint = "interleaved takes any number of chunks"});
  }
  if (int64_t{ranks} * chunks > kMaxCells / microbatches) {
    return UsageError({.message = "the schedule is too large",
                       .found = StrCat(int64_t{ranks} * chunks, " stages, ", microbatches, " microbatches"),
                       .expected = StrCat("at most ", kMaxCells, " stage-microbatches")});
  }
  Schedule schedule{.shape = {ranks, chunks, microbatches, entry.order}, .ranks = {}};
  FTUNE_RETURN_IF_ERROR(CheckCosts(costs, schedule.shape.stages()));
  schedule.ranks = entry.make(schedule.shape);
  return entry.split ? PullAheadIfShorter(std::move(schedule), costs) : schedule;
}

}  // namespace ftune
