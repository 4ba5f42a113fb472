// Schedules that tests go through.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/strings.h"
#include "parallel/schedule/check.h"
#include "parallel/schedule/schedule.h"
#include "parallel/schedule/simulate.h"

namespace ftune {

struct ScheduleCase {
  ScheduleKind kind = ScheduleKind::kGPipe;
  int ranks = 1;
  int chunks = 1;
  int microbatches = 1;

  std::string Name() const { return StrCat(ToString(kind), " p", ranks, " v", chunks, " m", microbatches); }
  Schedule Make(const ScheduleCosts& costs = {}) const {
    auto schedule = MakeSchedule(kind, ranks, chunks, microbatches, costs);
    REQUIRE_MESSAGE(schedule.ok(), Name(), ": ", schedule.status().ToString());
    return *std::move(schedule);
  }
};

inline bool IsVShaped(ScheduleKind kind) {
  return kind == ScheduleKind::kZbV || kind == ScheduleKind::kVHalf || kind == ScheduleKind::kVMin;
}

// The chunks with which a kind is tried.
inline std::vector<int> TriedChunks(ScheduleKind kind) {
  if (kind == ScheduleKind::kInterleaved) return {1, 2, 3, 4};
  return {IsVShaped(kind) ? 2 : 1};
}

// Calls `use` for each kind and number of chunks.
template <typename Use>
void ForEachCase(const std::vector<ScheduleKind>& kinds, const std::vector<int>& ranks,
                 const std::vector<int>& microbatches, const Use& use) {
  for (const ScheduleKind kind : kinds) {
    for (const int chunks : TriedChunks(kind)) {
      for (const int p : ranks) {
        for (const int m : microbatches) use(ScheduleCase{kind, p, chunks, m});
      }
    }
  }
}

inline std::vector<int> UpTo(int last) {
  std::vector<int> numbers;
  for (int i = 1; i <= last; ++i) numbers.push_back(i);
  return numbers;
}

inline ScheduleFacts FactsOf(const Schedule& schedule, int first_backward_stage = 0) {
  auto facts = CheckSchedule(schedule, first_backward_stage);
  REQUIRE_MESSAGE(facts.ok(), facts.status().ToString());
  return *std::move(facts);
}

inline Simulation Simulate(const Schedule& schedule, const ScheduleCosts& costs = {}) {
  auto simulation = SimulateSchedule(schedule, costs);
  REQUIRE_MESSAGE(simulation.ok(), simulation.status().ToString());
  return *std::move(simulation);
}

// Most stage-microbatches on any rank.
inline int PeakOf(const Schedule& schedule) {
  int peak = 0;
  for (const RankFacts& rank : FactsOf(schedule).ranks) peak = std::max(peak, rank.peak_live);
  return peak;
}

// What a kind promises of it, of all ranks.
inline int PeakLimit(const ScheduleCase& at) {
  const auto [kind, p, v, m] = at;
  const auto limit = [&] {
    switch (kind) {
      case ScheduleKind::k1F1B:
      case ScheduleKind::kZbH1:
        return p;
      case ScheduleKind::kZbH2:
        return 2 * p - 1;
      case ScheduleKind::kZbV:
        return 2 * p;
      // In chunks: a half and a third of ZB-V's and a few.
      case ScheduleKind::kVHalf:
        return p + 2;
      case ScheduleKind::kVMin:
        return (2 * p + 8) / 3;
      default:
        return v * m;
    }
  };
  return std::min(v * m, limit());
}

// A rank's list, as text: "F0.0 F0.1 BW0.0 BW0.1".
inline std::string ListOf(const Schedule& schedule, int rank) {
  std::string text;
  for (const Action& action : schedule.ranks[rank]) {
    StrAppend(text, text.empty() ? "" : " ", ToString(action));
  }
  return text;
}

}  // namespace ftune
