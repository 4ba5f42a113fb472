// Transfers, units and reductions, where they must be.
#include <map>

#include "parallel/schedule/drop_backward.h"
#include "parallel/schedule/insert_transfers.h"
#include "parallel/schedule/place_units.h"
#include "tests/unit/parallel/schedule_cases.h"

namespace ftune {
namespace {

using enum ActionKind;

TEST_CASE("receives are posted one compute action ahead") {
  const Schedule schedule = InsertTransfers(ScheduleCase{ScheduleKind::k1F1B, 2, 1, 3}.Make());
  CHECK(ListOf(schedule, 0) == "F0.0 SA0.0 RG0.0 F0.1 SA0.1 BW0.0 RG0.1 F0.2 SA0.2 RG0.2 BW0.1 BW0.2");
  CHECK(ListOf(schedule, 1) == "RA1.0 F1.0 RA1.1 BW1.0 SG1.0 F1.1 RA1.2 BW1.1 SG1.1 F1.2 BW1.2 SG1.2");
}

TEST_CASE("receives of a link come in the order of its sends, however early") {
  // Rank 0 sends 0, 1, 2; rank 1 wants 2 first.
  Schedule schedule{.shape = {.ranks = 2, .chunks = 1, .microbatches = 3}, .ranks = {}};
  schedule.ranks = {{{kForward, 0, 0},
                     {kForward, 0, 1},
                     {kForward, 0, 2},
                     {kBackward, 0, 2},
                     {kBackward, 0, 1},
                     {kBackward, 0, 0}},
                    {{kForward, 1, 2},
                     {kForward, 1, 1},
                     {kForward, 1, 0},
                     {kBackward, 1, 2},
                     {kBackward, 1, 1},
                     {kBackward, 1, 0}}};
  const Schedule with = InsertTransfers(schedule);
  CHECK(ListOf(with, 1) == "RA1.0 RA1.1 RA1.2 F1.2 F1.1 F1.0 BW1.2 SG1.2 BW1.1 SG1.1 BW1.0 SG1.0");
  FactsOf(with);
}

TEST_CASE("every receive precedes its consumer by a compute action where there is one") {
  ForEachCase(ScheduleKinds(), {1, 2, 3, 4, 8}, {1, 3, 8, 13}, [&](const ScheduleCase& at) {
    const Schedule schedule = InsertTransfers(at.Make());
    for (const std::vector<Action>& actions : schedule.ranks) {
      std::map<std::string, int> posted;  // by consumer's kind, stage and microbatch: compute actions before
      int computed = 0;
      for (size_t i = 0; i < actions.size(); ++i) {
        const Action& action = actions[i];
        if (IsSend(action.kind)) {
          // Directly after what makes it.
          REQUIRE(i > 0);
          const Action& before = actions[i - 1];
          CHECK((before.kind == kForward) == (action.kind == kSendActivation));
          CHECK(before.stage == action.stage);
          CHECK(before.microbatch == action.microbatch);
        }
        if (IsReceive(action.kind)) {
          posted[StrCat(action.kind == kReceiveActivation, " ", action.stage, " ", action.microbatch)] =
              computed;
        }
        if (!IsCompute(action.kind)) continue;
        const auto post =
            posted.find(StrCat(action.kind == kForward, " ", action.stage, " ", action.microbatch));
        if (post != posted.end() && action.kind != kBackwardWeight) {
          CHECK_MESSAGE(post->second <= std::max(0, computed - 1), at.Name(), " ", ToString(action));
        }
        ++computed;
      }
    }
  });
}

TEST_CASE("one rank, and the turn of a V, have no transfers") {
  for (const ScheduleKind kind : ScheduleKinds()) {
    const ScheduleCase at{kind, 1, TriedChunks(kind).back(), 3};
    CHECK(InsertTransfers(at.Make()).ranks == at.Make().ranks);
  }
  const Schedule v = InsertTransfers(ScheduleCase{ScheduleKind::kZbV, 2, 2, 1}.Make());
  CHECK(ListOf(v, 1) == "RA1.0 F1.0 RG2.0 F2.0 SA2.0 B2.0 B1.0 SG1.0 W2.0 W1.0");
}

TEST_CASE("units and reductions by ZeRO stage") {
  const auto list = [](const UnitOptions& options, bool transfers = false) {
    Schedule schedule = ScheduleCase{ScheduleKind::kInterleaved, 2, 2, 2}.Make();
    if (transfers) schedule = InsertTransfers(schedule);
    return ListOf(PlaceUnits(schedule, options), 0);
  };
  const std::string last = "F0.0 F0.1 F2.0 F2.1 BW2.0 BW2.1 D2.1 BW0.0 BW0.1 D0.1";
  CHECK(list({.zero = 0}) == last);
  CHECK(list({.zero = 1, .keep_for_step = true}) == last);
  CHECK(list({.zero = 2}) == "F0.0 F0.1 F2.0 F2.1 BW2.0 D2.0 BW2.1 D2.1 BW0.0 D0.0 BW0.1 D0.1");
  CHECK(list({.zero = 3}) ==
        "G0 F0.0 F0.1 R0 G2 F2.0 F2.1 BW2.0 D2.0 BW2.1 D2.1 R2 G0 BW0.0 D0.0 BW0.1 D0.1 R0");
  CHECK(list({.zero = 3, .keep_for_step = true}) ==
        "G0 F0.0 F0.1 G2 F2.0 F2.1 BW2.0 D2.0 BW2.1 D2.1 R2 BW0.0 D0.0 BW0.1 D0.1 R0");
  // D stays with its action, and what was made is sent before anything is released.
  CHECK(list({.zero = 3}, true) ==
        "G0 F0.0 SA0.0 RA2.0 F0.1 SA0.1 R0 RA2.1 G2 F2.0 SA2.0 RG2.0 F2.1 SA2.1 RG2.1 BW2.0 D2.0 SG2.0 RG0.0 "
        "BW2.1 "
        "D2.1 SG2.1 R2 RG0.1 G0 BW0.0 D0.0 BW0.1 D0.1 R0");
}

TEST_CASE("W is reduced, not B; a frozen stage never") {
  const Schedule schedule = DropBackward(ScheduleCase{ScheduleKind::kZbH1, 2, 1, 2}.Make(), 1);
  const Schedule with = PlaceUnits(schedule, {.zero = 2});
  CHECK(ListOf(with, 0) == "F0.0 F0.1");
  CHECK(ListOf(with, 1) == "F1.0 B1.0 F1.1 B1.1 W1.0 D1.0 W1.1 D1.1");
}

}  // namespace
}  // namespace ftune
