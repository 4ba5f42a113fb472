// Each thing that can be wrong with a schedule, done to a right one.
#include <algorithm>
#include <functional>
#include <random>

#include "parallel/schedule/csv.h"
#include "parallel/schedule/drop_backward.h"
#include "parallel/schedule/insert_transfers.h"
#include "parallel/schedule/place_units.h"
#include "tests/unit/parallel/schedule_cases.h"

namespace ftune {
namespace {

using enum ActionKind;
using Actions = std::vector<Action>;

Action Parsed(const std::string& text) {
  const auto action = ParseAction(text);
  REQUIRE_MESSAGE(action.ok(), text);
  return *action;
}

int PositionOf(const Actions& actions, const std::string& text) {
  const auto found = std::find(actions.begin(), actions.end(), Parsed(text));
  REQUIRE_MESSAGE(found != actions.end(), text);
  return static_cast<int>(found - actions.begin());
}

void Remove(Schedule& schedule, int rank, const std::string& text) {
  Actions& actions = schedule.ranks[rank];
  actions.erase(actions.begin() + PositionOf(actions, text));
}
void Insert(Schedule& schedule, int rank, const std::string& text, int position) {
  schedule.ranks[rank].insert(schedule.ranks[rank].begin() + position, Parsed(text));
}
void Move(Schedule& schedule, int rank, const std::string& text, const std::string& before) {
  Remove(schedule, rank, text);
  Insert(schedule, rank, text, PositionOf(schedule.ranks[rank], before));
}
void Swap(Schedule& schedule, int rank, const std::string& a, const std::string& b) {
  Actions& actions = schedule.ranks[rank];
  std::swap(actions[PositionOf(actions, a)], actions[PositionOf(actions, b)]);
}

std::string ErrorOf(const Schedule& schedule, int first_backward_stage = 0) {
  const auto facts = CheckSchedule(schedule, first_backward_stage);
  return facts.ok() ? "" : std::string(facts.status().message());
}

struct Fault {
  std::function<void(Schedule&)> plant;
  std::string message;  // what the error must say
};

void CheckFaults(const Schedule& right, const std::vector<Fault>& faults, int first_backward_stage = 0) {
  CHECK(ErrorOf(right, first_backward_stage) == "");
  for (const Fault& fault : faults) {
    Schedule wrong = right;
    fault.plant(wrong);
    const std::string error = ErrorOf(wrong, first_backward_stage);
    CHECK_MESSAGE(error.find(fault.message) != std::string::npos, "\"", error, "\" lacks \"", fault.message,
                  "\"");
  }
}

TEST_CASE("wrong compute actions") {
  // rank 0: F0.0 F0.1 BW0.0 F0.2 BW0.1 BW0.2, rank 1: F1.0 BW1.0 …
  CheckFaults(
      ScheduleCase{ScheduleKind::k1F1B, 2, 1, 3}.Make(),
      {
          {[](Schedule& s) { s.ranks.pop_back(); }, "there are 1 lists for 2 ranks"},
          {[](Schedule& s) { s.shape.microbatches = 0; }, "at least one rank, one chunk and one microbatch"},
          {[](Schedule& s) { s.shape.order = StageOrder::kV; }, "a V has two chunks"},
          {[](Schedule& s) { Insert(s, 0, "F2.0", 1); },
           "rank 0, action 2 (F2.0): there is no stage 2, only 0 to 1"},
          {[](Schedule& s) { Insert(s, 1, "F1.3", 0); },
           "rank 1, action 1 (F1.3): there is no microbatch 3, only 0 to 2"},
          {[](Schedule& s) { s.ranks[0][2].microbatch = -1; }, "there is no microbatch -1"},
          {[](Schedule& s) { s.ranks[0][2].stage = -1; }, "there is no stage -1"},
          {[](Schedule& s) { Insert(s, 0, "F1.0", 2); }, "rank 0, action 3 (F1.0): stage 1 is on rank 1"},
          {[](Schedule& s) { Insert(s, 0, "F0.1", 3); },
           "rank 0, action 4 (F0.1): it is there already, as action 2"},
          {[](Schedule& s) { Insert(s, 0, "BW0.1", 5); }, "rank 0, action 6 (BW0.1): it is there already"},
          {[](Schedule& s) { Insert(s, 0, "W0.0", 4); },
           "rank 0, action 5 (W0.0): its half is done already, by action 3 (BW0.0)"},
          {[](Schedule& s) { Insert(s, 0, "B0.2", 0); },
           "rank 0, action 7 (BW0.2): its half is done already, by action 1 (B0.2)"},
          {[](Schedule& s) { Remove(s, 1, "F1.1"); }, "rank 1: F1.1 is missing"},
          {[](Schedule& s) { Remove(s, 0, "BW0.2"); }, "rank 0: BW0.2, or B and W, is missing"},
          {[](Schedule& s) { Swap(s, 1, "F1.1", "BW1.1"); },
           "rank 1, action 3 (BW1.1): it comes before F1.1 (action 4), which it needs"},
      });
  CheckFaults(
      ScheduleCase{ScheduleKind::kZbH1, 2, 1, 3}.Make(),
      {
          {[](Schedule& s) { Remove(s, 0, "W0.1"); }, "rank 0: W0.1 is missing"},
          {[](Schedule& s) { Remove(s, 0, "B0.1"); }, "rank 0: B0.1 is missing"},
          {[](Schedule& s) { Swap(s, 1, "W1.0", "B1.0"); }, "(W1.0): it comes before B1.0"},
          {[](Schedule& s) { Move(s, 0, "B0.0", "F0.0"); }, "rank 0, action 1 (B0.0): it comes before F0.0"},
      });
  // Stages that follow each other on one rank.
  CheckFaults(ScheduleCase{ScheduleKind::kZbV, 2, 2, 3}.Make(),
              {
                  {[](Schedule& s) { Move(s, 1, "F2.0", "F1.0"); }, "(F2.0): it comes before F1.0"},
                  {[](Schedule& s) { Move(s, 1, "B1.0", "B2.0"); }, "(B1.0): it comes before B2.0"},
              });
}

TEST_CASE("wrong transfers") {
  // Rank 1: RA1.0 F1.0 SG… with a neighbour on each side.
  const Schedule right = InsertTransfers(ScheduleCase{ScheduleKind::k1F1B, 3, 1, 4}.Make());
  CheckFaults(right,
              {
                  {[](Schedule& s) { Remove(s, 0, "SA0.2"); }, "rank 0: SA0.2 is missing"},
                  {[](Schedule& s) { Remove(s, 1, "SG1.3"); }, "rank 1: SG1.3 is missing"},
                  {[](Schedule& s) { Remove(s, 2, "RA2.0"); },
                   "rank 2: RA2.0 is missing; rank 1 has its send, SA1.0"},
                  {[](Schedule& s) { Remove(s, 0, "RG0.3"); },
                   "rank 0: RG0.3 is missing; rank 1 has its send, SG1.3"},
                  {[](Schedule& s) { Insert(s, 1, "SA1.1", 0); }, "it is there already"},
                  {[](Schedule& s) { Insert(s, 2, "SA2.0", 3); },
                   "rank 2, action 4 (SA2.0): there is nothing to transfer"},
                  {[](Schedule& s) { Insert(s, 0, "SG0.0", 3); }, "(SG0.0): there is nothing to transfer"},
                  {[](Schedule& s) { Insert(s, 0, "RA0.0", 0); }, "(RA0.0): there is nothing to transfer"},
                  {[](Schedule& s) { Insert(s, 2, "RG2.0", 0); }, "(RG2.0): there is nothing to transfer"},
                  {[](Schedule& s) { Swap(s, 1, "F1.1", "SA1.1"); }, "(SA1.1): it comes before F1.1"},
                  {[](Schedule& s) { Swap(s, 1, "BW1.1", "SG1.1"); }, "(SG1.1): it comes before BW1.1"},
                  {[](Schedule& s) { Swap(s, 1, "RA1.0", "F1.0"); }, "(F1.0): it comes before RA1.0"},
                  {[](Schedule& s) { Swap(s, 1, "RG1.2", "BW1.2"); }, "(BW1.2): it comes before RG1.2"},
                  {[](Schedule& s) { Swap(s, 0, "RG0.0", "RG0.1"); }, "it comes before RG0.0"},
                  {[](Schedule& s) { Move(s, 1, "RA1.3", "RA1.1"); },
                   "(RA1.3): receives from rank 0 must come in the order in which it sends: here RA1.1"},
              });
  // A send that comes late enough for the receiver to wait for ever.
  Schedule wrong = right;
  Move(wrong, 0, "SA0.0", "SA0.1");
  CHECK(ErrorOf(wrong) == "");  // later, but in order
  Move(wrong, 0, "SA0.0", "BW0.1");
  CHECK(ErrorOf(wrong).find("must come in the order") != std::string::npos);
}

TEST_CASE("frozen stages") {
  const Schedule schedule = ScheduleCase{ScheduleKind::k1F1B, 3, 1, 2}.Make();
  const Schedule right = InsertTransfers(DropBackward(schedule, 1));
  CHECK(ListOf(right, 0) == "F0.0 SA0.0 F0.1 SA0.1");
  CHECK(ListOf(right, 1) == "RA1.0 RA1.1 F1.0 SA1.0 RG1.0 F1.1 SA1.1 RG1.1 BW1.0 BW1.1");
  CHECK(FactsOf(right, 1).ranks[0].peak_live == 0);
  CHECK(FactsOf(right, 1).ranks[1].peak_live == 2);
  CheckFaults(right,
              {
                  {[](Schedule& s) { Insert(s, 0, "BW0.0", 4); },
                   "rank 0, action 5 (BW0.0): stage 0 has no backward: the first that has one is 1"},
                  {[](Schedule& s) { Insert(s, 0, "D0.0", 4); }, "stage 0 has no backward"},
                  {[](Schedule& s) { Insert(s, 1, "SG1.0", 9); }, "(SG1.0): there is nothing to transfer"},
                  {[](Schedule& s) { Insert(s, 0, "RG0.0", 2); }, "(RG0.0): there is nothing to transfer"},
                  {[](Schedule& s) { Remove(s, 1, "BW1.0"); }, "BW1.0, or B and W, is missing"},
              },
              1);
  CHECK(ErrorOf(right, 0) != "");
  CHECK(ErrorOf(schedule, 4).find("there is no stage 4 to begin backward with") != std::string::npos);
  // Nothing trainable at all.
  CHECK(ErrorOf(DropBackward(schedule, 3), 3) == "");
  CHECK(DropBackward(schedule, 0).ranks == schedule.ranks);
}

TEST_CASE("wrong units and reductions") {
  const Schedule schedule = ScheduleCase{ScheduleKind::kInterleaved, 2, 2, 2}.Make();
  // rank 0: G0 F0.0 F0.1 R0 G2 F2.0 F2.1 BW2.0 D2.0 BW2.1 D2.1 R2 G0 BW0.0 …
  const Schedule each = PlaceUnits(schedule, {.zero = 3});
  CheckFaults(
      each,
      {
          {[](Schedule& s) { Insert(s, 0, "G0", 1); },
           "rank 0, action 2 (G0): the stage is gathered already, since action 1"},
          {[](Schedule& s) { Remove(s, 0, "G0"); }, "rank 0, action 1 (F0.0): its stage is not gathered"},
          {[](Schedule& s) { Remove(s, 0, "R0"); }, "(G0): the stage is gathered already"},
          {[](Schedule& s) { Insert(s, 1, "R1", 0); }, "rank 1, action 1 (R1): the stage is not gathered"},
          {[](Schedule& s) { s.ranks[0].pop_back(); }, "the stage is never released"},
          {[](Schedule& s) { Swap(s, 0, "R0", "F0.1"); }, "(F0.1): its stage is not gathered"},
          {[](Schedule& s) { Move(s, 0, "D2.0", "D2.1"); },
           "(D2.0): it does not come directly after the BW or W that it reduces"},
          {[](Schedule& s) { Move(s, 1, "D1.0", "F1.0"); }, "(D1.0): it does not come directly after"},
          {[](Schedule& s) { Remove(s, 0, "D2.1"); },
           "(BW2.1): these last gradients of the stage are never reduced; D2.1 must follow"},
      });
}

TEST_CASE("a deadlock is told with who waits for whom") {
  // Each list is in an order that its own rank could do.
  const auto parsed = ParseScheduleCsv("F0.0,F0.1,BW0.0,BW0.1\nF1.0,BW1.0,F1.1,BW1.1\n", "right.csv");
  REQUIRE(parsed.ok());
  Schedule crossed = *parsed;
  // Rank 0 wants the gradient of 0 before it sends 1 on; rank 1 wants 1 first.
  crossed.ranks[0] = {{kForward, 0, 0}, {kBackward, 0, 0}, {kForward, 0, 1}, {kBackward, 0, 1}};
  crossed.ranks[1] = {{kForward, 1, 1}, {kBackward, 1, 1}, {kForward, 1, 0}, {kBackward, 1, 0}};
  CHECK(ErrorOf(crossed) ==
        "error: wrong schedule: rank 0, action 2 (BW0.0): deadlock: BW0.0 on rank 0 waits for BW1.0, which "
        "comes "
        "after F1.1; F1.1 on rank 1 waits for F0.1, which comes after BW0.0");
  // The same with transfers.
  const Schedule with_transfers = InsertTransfers(crossed);
  CHECK(ErrorOf(with_transfers).find("deadlock: ") != std::string::npos);
  // A rank outside the circle waits for it: it is not blamed.
  Schedule three = ScheduleCase{ScheduleKind::k1F1B, 3, 1, 2}.Make();
  three.ranks[0] = {{kForward, 0, 0}, {kForward, 0, 1}, {kBackward, 0, 0}, {kBackward, 0, 1}};
  three.ranks[1] = {{kForward, 1, 0}, {kBackward, 1, 0}, {kForward, 1, 1}, {kBackward, 1, 1}};
  three.ranks[2] = {{kForward, 2, 1}, {kBackward, 2, 1}, {kForward, 2, 0}, {kBackward, 2, 0}};
  const std::string error = ErrorOf(three);
  CHECK_MESSAGE(error.find("deadlock: BW1.0 on rank 1 waits for BW2.0") != std::string::npos, error);
  CHECK_MESSAGE(error.find("on rank 0") == std::string::npos, error);
}

TEST_CASE("what needs buffered sends is told") {
  const ScheduleFacts plain = FactsOf(InsertTransfers(ScheduleCase{ScheduleKind::k1F1B, 4, 1, 8}.Make()));
  CHECK(plain.has_transfers);
  CHECK_FALSE(plain.needs_buffered_sends);
  CHECK(plain.rendezvous_deadlock.empty());
  // Both send before they post what the other sends.
  Schedule schedule = InsertTransfers(ScheduleCase{ScheduleKind::k1F1B, 2, 1, 2}.Make());
  CHECK_FALSE(FactsOf(schedule).needs_buffered_sends);
  schedule.ranks[0] = {{kForward, 0, 0},         {kSendActivation, 0, 0},  {kForward, 0, 1},
                       {kSendActivation, 0, 1},  {kReceiveGradient, 0, 0}, {kBackward, 0, 0},
                       {kReceiveGradient, 0, 1}, {kBackward, 0, 1}};
  schedule.ranks[1] = {{kReceiveActivation, 1, 0}, {kForward, 1, 0},           {kBackward, 1, 0},
                       {kSendGradient, 1, 0},      {kReceiveActivation, 1, 1}, {kForward, 1, 1},
                       {kBackward, 1, 1},          {kSendGradient, 1, 1}};
  const ScheduleFacts facts = FactsOf(schedule);
  CHECK(facts.needs_buffered_sends);
  CHECK(facts.rendezvous_deadlock ==
        "deadlock: SA0.1 on rank 0 waits for RA1.1, which comes after SG1.0; SG1.0 on rank 1 waits for "
        "RG0.0, which "
        "comes after SA0.1");
}

TEST_CASE("what the checker accepts comes to its end, and of orders nothing else does") {
  std::mt19937 random(1);
  int accepted = 0;
  int refused = 0;
  ForEachCase(ScheduleKinds(), {2, 3, 4}, {2, 5}, [&](const ScheduleCase& at) {
    const Schedule right = at.Make();
    for (int trial = 0; trial < 100; ++trial) {
      Schedule schedule = right;
      for (int swaps = trial % 4; swaps >= 0; --swaps) {
        Actions& actions = schedule.ranks[random() % schedule.ranks.size()];
        const size_t first = random() % actions.size();
        std::swap(actions[first], actions[(first + 1 + random() % 3) % actions.size()]);
      }
      const bool good = CheckSchedule(schedule).ok();
      CHECK_MESSAGE(SimulateSchedule(schedule).ok() == good, at.Name());
      ++(good ? accepted : refused);
      // Whatever ranks could do before, they can with transfers.
      if (good) CHECK_MESSAGE(ErrorOf(InsertTransfers(schedule)) == "", at.Name());
    }
  });
  CHECK(accepted > 500);
  CHECK(refused > 500);
}

}  // namespace
}  // namespace ftune
