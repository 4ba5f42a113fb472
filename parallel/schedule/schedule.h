// A step of a pipeline as data: what each rank does, in order. Made by a pure function, completed by passes
// (drop_backward.h, insert_transfers.h, place_units.h), checked offline (check.h), timed (simulate.h), drawn
// (picture.h), and executed by the engine's runner.
//
// The model is cut into ranks * chunks stages; a rank holds `chunks` of them. Chunk c of a rank is the c-th
// that a microbatch comes to.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "parallel/schedule/action.h"

namespace ftune {

enum class ScheduleKind : uint8_t {
  kGPipe,        // Huang et al. 2019: all forward, then all backward
  k1F1B,         // Narayanan et al. 2019 (PipeDream), with flush
  kInterleaved,  // Narayanan et al. 2021 (Megatron-LM), section 2.2.2
  kZbH1,         // Qi et al. 2023 "Zero bubble pipeline parallelism", section 2: 1F1B's memory
  kZbH2,         // the same: twice that, no rank idles
  kZbV,          // the same: two chunks, 1F1B's memory, no rank idles
  kVHalf,        // Qi et al. 2024 "Pipeline parallelism with controllable memory": half of 1F1B's memory
  kVMin,         // a third
};

// gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, v-half, v-min.
std::string_view ToString(ScheduleKind kind);
std::optional<ScheduleKind> FindScheduleKind(std::string_view name);
// Stages a rank that a kind is made of; 0: any number.
int ChunksOf(ScheduleKind kind);
// All of them, in that order.
const std::vector<ScheduleKind>& ScheduleKinds();

enum class StageOrder : uint8_t {
  kLoop,  // stage s on rank s % ranks
  kV,     // two chunks: down the ranks and back up
};

struct ScheduleShape {
  int ranks = 1;
  int chunks = 1;
  int microbatches = 1;
  StageOrder order = StageOrder::kLoop;

  int stages() const { return ranks * chunks; }
  int ChunkOf(int stage) const { return stage / ranks; }
  int RankOf(int stage) const {
    return order == StageOrder::kV && stage >= ranks ? 2 * ranks - 1 - stage : stage % ranks;
  }
  int StageOf(int rank, int chunk) const {
    return order == StageOrder::kV && chunk == 1 ? 2 * ranks - 1 - rank : chunk * ranks + rank;
  }
  bool operator==(const ScheduleShape&) const = default;
};

// Time of one microbatch in one stage, in any unit. An action BW costs the sum of both halves.
struct StageCosts {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
};

struct ScheduleCosts {
  // One entry a stage, or one for all. (GCC takes the elements of an initialiser list for uninitialised.)
  std::vector<StageCosts> stages = std::vector<StageCosts>(1);
  double transfer = 0;  // from one rank to another

  const StageCosts& Of(int stage) const { return stages.size() == 1 ? stages[0] : stages[stage]; }
};
double CostOf(const Action& action, const ScheduleCosts& costs);  // 0 for what is not compute
// An error where there are neither one nor `stages` entries, or a cost is negative or not finite.
absl::Status CheckCosts(const ScheduleCosts& costs, int stages);

struct Schedule {
  ScheduleShape shape;
  std::vector<std::vector<Action>> ranks;
};

// Compute actions only. Any number of ranks and microbatches from 1 on, fewer microbatches than stages
// included. Chunks: any number for kInterleaved (one makes it 1F1B), 2 for kZbV, kVHalf, kVMin, 1 for the
// others; anything else is an error. The costs choose where the zero-bubble kinds put W (pull_ahead.h); the
// others are the same for all costs.
//
// kInterleaved takes microbatches in groups that go through one chunk after another. Where the ranks divide
// the microbatches, the groups are of as many microbatches as there are ranks, as in Megatron. Otherwise they
// are of that many or a few more, the larger ones first, so that no rank waits for a short group to come
// round; that costs (chunks - 1) more live activations for each microbatch that a group has more than there
// are ranks.
absl::StatusOr<Schedule> MakeSchedule(ScheduleKind kind, int ranks, int chunks, int microbatches,
                                      const ScheduleCosts& costs = {});

}  // namespace ftune
