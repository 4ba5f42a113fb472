// The simulator and the checker against the closed formulas for step time and live activations.
#include <algorithm>
#include <cmath>

#include "parallel/schedule/insert_transfers.h"
#include "parallel/schedule/place_units.h"
#include "tests/unit/parallel/schedule_cases.h"

namespace ftune {
namespace {

using enum ScheduleKind;

// Costs for whose sums floating point has no rounding. `chunks` share a rank's microbatch.
ScheduleCosts Costs(double forward, double input, double weight) {
  return {.stages = {{forward, input, weight}}};
}

const std::vector<StageCosts>& AllCosts() {
  static const std::vector<StageCosts> all = {{1, 1, 1}, {1, 1, 0.5}, {2, 3, 1}, {3, 2, 1},
                                              {1, 2, 1}, {3, 1, 1},   {2, 2, 0}, {1.5, 2.25, 1.25}};
  return all;
}

// Beyond the time that a rank computes.
double Extra(const ScheduleCase& at, const StageCosts& cost) {
  const ScheduleCosts costs = Costs(cost.forward, cost.backward_input, cost.backward_weight);
  const double ideal =
      at.microbatches * at.chunks * (cost.forward + cost.backward_input + cost.backward_weight);
  return Simulate(at.Make(costs), costs).makespan - ideal;
}

TEST_CASE("GPipe and 1F1B: (p-1)(F+B+W), any number of microbatches") {
  for (const StageCosts& cost : AllCosts()) {
    const double all = cost.forward + cost.backward_input + cost.backward_weight;
    ForEachCase({kGPipe, k1F1B}, UpTo(8), {1, 2, 3, 5, 8, 13, 32}, [&](const ScheduleCase& at) {
      CHECK_MESSAGE(Extra(at, cost) == (at.ranks - 1) * all, at.Name());
    });
  }
}

TEST_CASE("interleaved: (p-1)(F+B+W)/v from as many microbatches as ranks on, divisible or not") {
  for (const StageCosts& cost : AllCosts()) {
    // Of one chunk: the v-th part of a rank's.
    const double all = cost.forward + cost.backward_input + cost.backward_weight;
    ForEachCase({kInterleaved}, {1, 2, 3, 4, 6, 8}, {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 23, 32},
                [&](const ScheduleCase& at) {
                  if (at.microbatches < at.ranks) return;
                  CHECK_MESSAGE(Extra(at, cost) == (at.ranks - 1) * all, at.Name());
                });
  }
}

TEST_CASE("ZB-H1: (p-1)(F+B-W) where W is the shortest, from as many microbatches as ranks on") {
  for (const StageCosts& cost : AllCosts()) {
    ForEachCase({kZbH1}, UpTo(8), {1, 2, 3, 5, 8, 13, 32}, [&](const ScheduleCase& at) {
      if (at.microbatches < at.ranks) return;
      const double expected = (at.ranks - 1) * (cost.forward + cost.backward_input - cost.backward_weight);
      CHECK_MESSAGE(Extra(at, cost) == expected, at.Name());
    });
  }
}

TEST_CASE("ZB-H2 and ZB-V: ranks start one after another, (p-1)F, and none idles") {
  ForEachCase({kZbH2, kZbV}, UpTo(8), {1, 3, 7, 15, 16, 33}, [&](const ScheduleCase& at) {
    if (at.microbatches < 2 * at.ranks - 1) return;
    CHECK_MESSAGE(Extra(at, {1, 1, 1}) == at.ranks - 1, at.Name());
    for (const RankSimulation& rank : Simulate(at.Make()).ranks) CHECK_MESSAGE(rank.waiting == 0, at.Name());
  });
  // With other costs, the same for H2 as long as what it takes first is enough: B no longer than F and W.
  CHECK(Extra({kZbH2, 4, 1, 32}, {3, 1, 1}) == 9);
}

TEST_CASE("the V kinds' bubbles: about a half and two thirds of 1F1B's") {
  for (int p = 1; p <= 16; ++p) {
    const double plain = Extra({k1F1B, p, 1, 64}, {2, 2, 2});
    CHECK(Extra({kVHalf, p, 2, 64}, {1, 1, 1}) <= plain / 2 + 1);
    CHECK(Extra({kVMin, p, 2, 64}, {1, 1, 1}) <= plain * 2 / 3);
  }
}

TEST_CASE("live activations") {
  ForEachCase(ScheduleKinds(), UpTo(16), {1, 2, 3, 8, 33, 64}, [&](const ScheduleCase& at) {
    const auto [kind, p, v, m] = at;
    const ScheduleFacts facts = FactsOf(at.Make());
    int most = 0;
    for (int r = 0; r < p; ++r) {
      const int peak = facts.ranks[r].peak_live;
      most = std::max(most, peak);
      if (kind == kGPipe) CHECK_MESSAGE(peak == m, at.Name());
      if (kind == k1F1B) CHECK_MESSAGE(peak == std::min(m, p - r), at.Name());
      if (kind == kInterleaved && v > 1 && m % p == 0) {
        CHECK_MESSAGE(peak == std::min(m * v, 2 * (p - r - 1) + (v - 1) * p + 1), at.Name());
      }
    }
    CHECK_MESSAGE(most <= PeakLimit(at), at.Name());
    if (kind == kZbH1) CHECK_MESSAGE(most == std::min(m, p), at.Name());
    if (kind == kZbV && m >= 2 * p) CHECK_MESSAGE(most == 2 * p, at.Name());
    if (kind == kInterleaved && v > 1 && m % p == 0 && m > p) CHECK_MESSAGE(most == v * p + p - 1, at.Name());
  });
}

TEST_CASE("what is live is told apart by what it waits for, and by chunk") {
  // F0 F1 B0 F2 B1 W0 …: three forwards before W0, of which two wait for B.
  Schedule schedule{.shape = {.ranks = 1, .chunks = 1, .microbatches = 3}, .ranks = {{}}};
  using enum ActionKind;
  schedule.ranks[0] = {{kForward, 0, 0},       {kForward, 0, 1},        {kBackwardInput, 0, 0},
                       {kForward, 0, 2},       {kBackwardInput, 0, 1},  {kBackwardWeight, 0, 0},
                       {kBackwardInput, 0, 2}, {kBackwardWeight, 0, 1}, {kBackwardWeight, 0, 2}};
  const RankFacts facts = FactsOf(schedule).ranks[0];
  CHECK(facts.peak_live == 3);
  CHECK(facts.peak_until_input == 2);
  CHECK(facts.peak_until_weight == 2);
  CHECK(facts.peak_live_of_chunk == std::vector<int>{3});
  const RankFacts of_chunks = FactsOf(ScheduleCase{kInterleaved, 2, 2, 4}.Make()).ranks[1];
  CHECK(of_chunks.peak_live == 3);
  CHECK(of_chunks.peak_live_of_chunk == std::vector<int>{3, 1});
}

TEST_CASE("memory over time, by what B and W give back") {
  const Schedule schedule = ScheduleCase{kZbH1, 4, 1, 8}.Make();
  const auto peak = [&](double until_input, double until_weight, int rank) {
    const auto simulation = SimulateSchedule(schedule, {}, {}, {{until_input, until_weight}});
    REQUIRE(simulation.ok());
    return simulation->ranks[rank].peak_activations;
  };
  CHECK(peak(0, 1, 3) == 4);    // 4 between F and W
  CHECK(peak(1, 0, 3) == 1);    // 1 between F and B
  CHECK(peak(10, 1, 3) == 14);  // the F of the fourth: 4 wait for W, one of them for B as well
  CHECK(peak(10, 1, 0) == 44);
  // BW gives back both at once.
  const auto plain = SimulateSchedule(ScheduleCase{k1F1B, 4, 1, 8}.Make(), {}, {}, {{10, 1}});
  REQUIRE(plain.ok());
  CHECK(plain->ranks[0].peak_activations == 44);
  CHECK(plain->ranks[3].peak_activations == 11);
  CHECK_FALSE(SimulateSchedule(schedule, {}, {}, {{1, 1}, {1, 1}}).ok());
}

TEST_CASE("time of transfers") {
  const Schedule schedule = ScheduleCase{kGPipe, 2, 1, 3}.Make();
  const Schedule with_transfers = InsertTransfers(schedule);
  const auto makespan = [](const Schedule& which, const LinkCosts& link) {
    const auto simulation = SimulateSchedule(which, Costs(1, 1, 1), link);
    REQUIRE(simulation.ok());
    return simulation->makespan;
  };
  CHECK(makespan(schedule, {}) == 12);
  // Forward and back once each.
  CHECK(makespan(schedule, {.latency = 0.5}) == 13);
  CHECK(makespan(schedule, {.seconds_per_transfer = 0.5}) == 13);
  // A link that carries one every 4 is slower than the stages: F 1, then transfers till 13, F till 14;
  // backward ends at 16, 18, 20 and its transfers at 20, 24, 28.
  CHECK(makespan(schedule, {.seconds_per_transfer = 4}) == 30);
  CHECK(makespan(schedule, {.latency = 0.25, .seconds_per_transfer = 4}) == 30.5);
  CHECK(makespan(with_transfers, {.latency = 0.25, .seconds_per_transfer = 4}) == 30.5);
  // Where transfers are listed they are in the result.
  const auto simulation =
      SimulateSchedule(with_transfers, Costs(1, 1, 1), {.latency = 0.25, .seconds_per_transfer = 4});
  REQUIRE(simulation.ok());
  for (const TimedAction& timed : simulation->ranks[0].actions) {
    if (timed.action != Action{ActionKind::kSendActivation, 0, 1}) continue;
    CHECK(timed.begin == 5);
    CHECK(timed.end == 9.25);
  }
  for (const TimedAction& timed : simulation->ranks[1].actions) {
    if (timed.action == Action{ActionKind::kReceiveActivation, 1, 1}) CHECK(timed.end == 9.25);
  }
}

TEST_CASE("passes do not change the time") {
  ForEachCase(ScheduleKinds(), {1, 2, 4, 5}, {1, 4, 10}, [&](const ScheduleCase& at) {
    ScheduleCosts costs = Costs(1, 1.5, 0.75);
    costs.transfer = 0.125;
    const Schedule schedule = at.Make(costs);
    const Schedule complete = PlaceUnits(InsertTransfers(schedule), {.zero = 3});
    CHECK_MESSAGE(Simulate(schedule, costs).makespan == Simulate(complete, costs).makespan, at.Name());
  });
}

TEST_CASE("busy and idle time of ranks") {
  const Simulation simulation = Simulate(ScheduleCase{k1F1B, 4, 1, 8}.Make());
  CHECK(simulation.makespan == 33);
  for (const RankSimulation& rank : simulation.ranks) {
    CHECK(rank.busy == 24);
    CHECK(rank.bubble == 9);
  }
  CHECK(simulation.ranks[0].waiting == 9);
  CHECK(simulation.ranks[3].waiting == 0);
  CHECK(std::abs(simulation.bubble_ratio - 3.0 / 11) < 1e-15);
  // Where ranks end one after another, those that end first wait for the last.
  for (const RankSimulation& rank : Simulate(ScheduleCase{kZbH2, 4, 1, 8}.Make()).ranks)
    CHECK(rank.bubble == 3);
  CHECK(simulation.ranks[1].actions[0].begin == 1);
  CHECK(simulation.ranks[1].actions[0].end == 2);
}

TEST_CASE("what never ends is not timed") {
  Schedule schedule = ScheduleCase{kGPipe, 2, 1, 2}.Make();
  std::swap(schedule.ranks[0].front(), schedule.ranks[0].back());
  const auto simulation = SimulateSchedule(schedule);
  REQUIRE_FALSE(simulation.ok());
  CHECK(std::string(simulation.status().message()).find("rank 0 waits at action 1, BW0.1") !=
        std::string::npos);
}

}  // namespace
}  // namespace ftune
