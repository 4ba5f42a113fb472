// Steps one after another on ranks that do not wait for each other in between.
#include "parallel/schedule/insert_transfers.h"
#include "parallel/schedule/repeat_steps.h"
#include "tests/unit/parallel/schedule_cases.h"

namespace ftune {
namespace {

// What a step more takes, beyond those before it.
double StepOfMany(const Schedule& schedule) {
  constexpr int kMany = 6;
  return Simulate(RepeatSteps(schedule, kMany)).makespan -
         Simulate(RepeatSteps(schedule, kMany - 1)).makespan;
}

TEST_CASE("lists are repeated with the microbatches of the next steps") {
  const Schedule schedule = InsertTransfers(ScheduleCase{ScheduleKind::k1F1B, 2, 1, 2}.Make());
  const Schedule twice = RepeatSteps(schedule, 2);
  CHECK(twice.shape.microbatches == 4);
  CHECK(ListOf(twice, 0) ==
        "F0.0 SA0.0 RG0.0 F0.1 SA0.1 RG0.1 BW0.0 BW0.1 F0.2 SA0.2 RG0.2 F0.3 SA0.3 RG0.3 BW0.2 BW0.3");
  CHECK(RepeatSteps(schedule, 1).ranks == schedule.ranks);
}

TEST_CASE("steps one after another are a schedule, with and without transfers, and need no more memory") {
  ForEachCase(ScheduleKinds(), {1, 2, 3, 4}, {1, 3, 8}, [](const ScheduleCase& at) {
    const Schedule schedule = at.Make();
    CHECK_MESSAGE(PeakOf(RepeatSteps(schedule, 3)) == PeakOf(schedule), at.Name());
    FactsOf(RepeatSteps(InsertTransfers(schedule), 3));
  });
}

TEST_CASE("what a schedule gains where its ranks do not wait for each other between steps") {
  for (const int ranks : {2, 4, 8}) {
    const int microbatches = 2 * ranks;
    const double ideal = 3.0 * microbatches;
    const auto step = [&](ScheduleKind kind) {
      return StepOfMany(ScheduleCase{kind, ranks, IsVShaped(kind) ? 2 : 1, microbatches}.Make());
    };
    // No bubble is left; of two chunks a rank, each is half of the work.
    CHECK(step(ScheduleKind::kZbH2) == doctest::Approx(ideal));
    CHECK(step(ScheduleKind::kZbV) == doctest::Approx(2 * ideal));
    // Rank 0 begins a step and ends it: it has nothing to go on with.
    for (const ScheduleKind kind : ScheduleKinds()) {
      if (kind == ScheduleKind::kZbH2 || kind == ScheduleKind::kZbV) continue;
      const int chunks = std::max(1, ChunksOf(kind));
      const double alone = Simulate(ScheduleCase{kind, ranks, chunks, microbatches}.Make()).makespan;
      CHECK_MESSAGE(step(kind) == doctest::Approx(alone), ToString(kind), " on ", ranks);
    }
  }
}

}  // namespace
}  // namespace ftune
