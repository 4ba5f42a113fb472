// All kinds over many shapes: valid in every form that a run uses.
#include <algorithm>

#include "parallel/schedule/drop_backward.h"
#include "parallel/schedule/insert_transfers.h"
#include "parallel/schedule/place_units.h"
#include "tests/unit/parallel/schedule_cases.h"

namespace ftune {
namespace {

bool Valid(const ScheduleCase& at, std::string_view form, const Schedule& schedule,
           int first_backward_stage) {
  const auto facts = CheckSchedule(schedule, first_backward_stage);
  CHECK_MESSAGE(facts.ok(), at.Name(), ", ", std::string(form), ": ", facts.status().ToString());
  return facts.ok();
}

TEST_CASE("every kind, on 1 to 8 and 16 ranks, with 1 to 33 microbatches, is valid") {
  int count = 0;
  std::vector<int> ranks = UpTo(8);
  ranks.push_back(16);
  ForEachCase(ScheduleKinds(), ranks, UpTo(33), [&](const ScheduleCase& at) {
    const Schedule schedule = at.Make();
    ++count;
    if (!Valid(at, "compute", schedule, 0)) return;
    const Schedule with_transfers = InsertTransfers(schedule);
    Valid(at, "transfers", with_transfers, 0);
    const UnitOptions units{.zero = at.microbatches % 4, .keep_for_step = at.ranks % 2 == 0};
    const Schedule complete = PlaceUnits(with_transfers, units);
    Valid(at, "units", complete, 0);
    // The passes may come in either order.
    CHECK_MESSAGE(complete.ranks == InsertTransfers(PlaceUnits(schedule, units)).ranks, at.Name());
    const int first = (at.microbatches * 7 + at.ranks) % (schedule.shape.stages() + 1);
    Valid(at, "frozen below", PlaceUnits(InsertTransfers(DropBackward(schedule, first)), units), first);
  });
  CHECK(count == 11 * 9 * 33);
}

TEST_CASE("costs of stages and transfers give valid schedules that hold no more than those of equal costs") {
  ForEachCase(ScheduleKinds(), {1, 2, 3, 4, 7}, {1, 2, 5, 8, 12}, [&](const ScheduleCase& at) {
    ScheduleCosts costs{.stages = {}, .transfer = 0.25 * (at.microbatches % 3)};
    for (int stage = 0; stage < at.ranks * at.chunks; ++stage) {
      costs.stages.push_back({1.0 + stage % 3, 1.5 + (stage * 5) % 4, 0.5 + (stage * 3) % 2});
    }
    const Schedule schedule = at.Make(costs);
    if (!Valid(at, "costs", InsertTransfers(schedule), 0)) return;
    CHECK_MESSAGE(PeakOf(schedule) <= PeakLimit(at), at.Name());
    if (at.kind < ScheduleKind::kZbH1) CHECK_MESSAGE(schedule.ranks == at.Make().ranks, at.Name());
  });
}

TEST_CASE("costs move actions to where ranks would idle") {
  ScheduleCosts costs{.stages = {{1, 2, 1}}, .transfer = 0};
  const ScheduleCase at{ScheduleKind::kVHalf, 4, 2, 32};
  const double for_costs = Simulate(at.Make(costs), costs).makespan;
  const double for_equal = Simulate(at.Make(), costs).makespan;
  CHECK_MESSAGE(for_costs < 0.95 * for_equal, for_costs, " ", for_equal);
}

TEST_CASE("schedules as they are drawn in their papers") {
  const auto list = [](ScheduleKind kind, int ranks, int chunks, int microbatches, int rank) {
    return ListOf(ScheduleCase{kind, ranks, chunks, microbatches}.Make(), rank);
  };
  using enum ScheduleKind;
  CHECK(list(kGPipe, 2, 1, 2, 1) == "F1.0 F1.1 BW1.0 BW1.1");
  CHECK(list(k1F1B, 2, 1, 3, 0) == "F0.0 F0.1 BW0.0 F0.2 BW0.1 BW0.2");
  CHECK(list(k1F1B, 2, 1, 3, 1) == "F1.0 BW1.0 F1.1 BW1.1 F1.2 BW1.2");
  CHECK(list(k1F1B, 4, 1, 1, 0) == "F0.0 BW0.0");
  CHECK(list(kInterleaved, 2, 2, 2, 1) == "F1.0 F1.1 F3.0 BW3.0 F3.1 BW3.1 BW1.0 BW1.1");
  CHECK(list(kInterleaved, 2, 2, 2, 0) == "F0.0 F0.1 F2.0 F2.1 BW2.0 BW2.1 BW0.0 BW0.1");
  CHECK(list(kZbH1, 2, 1, 3, 0) == "F0.0 F0.1 B0.0 W0.0 F0.2 B0.1 W0.1 B0.2 W0.2");
  CHECK(list(kZbH1, 2, 1, 3, 1) == "F1.0 B1.0 F1.1 B1.1 W1.0 F1.2 B1.2 W1.1 W1.2");
  CHECK(list(kZbH2, 2, 1, 3, 0) == "F0.0 F0.1 F0.2 B0.0 W0.0 B0.1 W0.1 B0.2 W0.2");
  CHECK(list(kZbV, 2, 2, 3, 1) ==
        "F1.0 F2.0 F1.1 F2.1 B2.0 W2.0 F1.2 B1.0 W1.0 F2.2 B2.1 W2.1 B1.1 B2.2 B1.2 W1.1 W2.2 W1.2");
}

TEST_CASE("interleaved takes one chunk for 1F1B") {
  for (const int p : {1, 3, 4}) {
    const ScheduleCase one{ScheduleKind::kInterleaved, p, 1, 5};
    const ScheduleCase plain{ScheduleKind::k1F1B, p, 1, 5};
    CHECK(one.Make().ranks == plain.Make().ranks);
  }
  const Schedule single = ScheduleCase{ScheduleKind::k1F1B, 1, 1, 2}.Make();
  CHECK(ListOf(single, 0) == "F0.0 BW0.0 F0.1 BW0.1");
}

TEST_CASE("names of kinds") {
  std::string names;
  for (const ScheduleKind kind : ScheduleKinds()) {
    CHECK(FindScheduleKind(ToString(kind)) == kind);
    StrAppend(names, ToString(kind), " ");
  }
  CHECK(names == "gpipe 1f1b interleaved zb-h1 zb-h2 zb-v v-half v-min ");
  CHECK_FALSE(FindScheduleKind("zb-h3").has_value());
  CHECK_FALSE(FindScheduleKind("").has_value());
}

TEST_CASE("stages of a rank") {
  const ScheduleShape loop{.ranks = 3, .chunks = 2, .microbatches = 1};
  const ScheduleShape v{.ranks = 3, .chunks = 2, .microbatches = 1, .order = StageOrder::kV};
  for (const ScheduleShape& shape : {loop, v}) {
    for (int stage = 0; stage < 6; ++stage) {
      CHECK(shape.StageOf(shape.RankOf(stage), shape.ChunkOf(stage)) == stage);
    }
  }
  CHECK(loop.RankOf(3) == 0);
  CHECK(v.RankOf(3) == 2);
  CHECK(v.RankOf(5) == 0);
}

TEST_CASE("combinations that there are not are refused") {
  struct Wrong {
    ScheduleKind kind;
    int ranks, chunks, microbatches;
    ScheduleCosts costs;
    const char* message;
  };
  using enum ScheduleKind;
  const std::vector<Wrong> all = {
      {k1F1B, 0, 1, 4, {}, "at least one"},
      {k1F1B, 2, 1, 0, {}, "at least one"},
      {kInterleaved, 2, 0, 4, {}, "at least one"},
      {k1F1B, 2, 2, 4, {}, "schedule 1f1b cuts a rank's part of the model into 1 chunk"},
      {kZbV, 2, 1, 4, {}, "2 chunks; found 1, expected 2"},
      {kVMin, 2, 3, 4, {}, "2 chunks; found 3"},
      {kGPipe, 1 << 20, 1, 1 << 20, {}, "too large"},
      {k1F1B, 2, 1, 4, {.stages = {{}, {}, {}}}, "found 3 stages, expected 2, or one for all"},
      {k1F1B, 2, 1, 4, {.stages = {}}, "found 0 stages"},
      {k1F1B, 2, 1, 4, {.stages = {{}, {1, -1, 1}}}, "a cost of stage 1 is not a time"},
      {k1F1B, 2, 1, 4, {.transfer = -1}, "the cost of a transfer is not a time"},
  };
  for (const Wrong& wrong : all) {
    const auto made = MakeSchedule(wrong.kind, wrong.ranks, wrong.chunks, wrong.microbatches, wrong.costs);
    REQUIRE_FALSE(made.ok());
    const std::string message(made.status().message());
    CHECK_MESSAGE(message.find(wrong.message) != std::string::npos, message);
  }
}

}  // namespace
}  // namespace ftune
