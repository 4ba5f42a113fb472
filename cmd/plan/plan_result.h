// All that a plan found, before it is put into words.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "cmd/plan/cpu_overhead.h"
#include "cmd/plan/data_facts.h"
#include "cmd/plan/disk_need.h"
#include "cmd/plan/roles.h"
#include "cmd/plan/step_time.h"
#include "cmd/plan/target.h"

namespace ftune {

struct PlanResult {
  RolesOfMesh mesh;
  std::string mesh_in_words;  // "2 ranks: data 2"
  int64_t microbatches = 0;   // of a rank, a step
  int64_t packs = 0;          // of a microbatch
  int64_t pack_tokens = 0;
  int64_t step_tokens = 0;           // of the whole mesh
  int64_t used_tokens = 0;           // of these, what texts fill
  double fill = 1.0;                 // of a pack's tokens, what texts fill
  int64_t capacity = 0;              // bytes that a rank may have
  std::optional<StepTime> time;      // where the device is known
  std::optional<double> peak_flops;  // a second, of all ranks: what MFU is told of
  // What the plan is for, where that is known.
  std::optional<Target> target;
  // Of this recipe's data and disk, where they were looked at.
  std::optional<DataFacts> data;
  std::optional<DiskNeed> disk;

  // Bytes that a rank needs beside what its ledger has.
  int64_t Runtime() const { return target ? target->device.runtime : kCpuRuntime; }
  int64_t Fragmentation(const RankRole& role) const {
    const double share = target ? target->device.fragmentation : 0.0;
    return static_cast<int64_t>(share * static_cast<double>(role.dry.peak.total()));
  }
  int64_t Needs(const RankRole& role) const {
    return role.dry.peak.total() + Runtime() + Fragmentation(role);
  }
  // Of the capacity, what a ledger may have.
  int64_t LedgerRoom() const {
    const double share = target ? target->device.fragmentation : 0.0;
    return static_cast<int64_t>(static_cast<double>(capacity - Runtime()) / (1.0 + share));
  }
  // The role that lacks most, or has least left.
  const RankRole& Largest() const {
    return *std::max_element(mesh.roles.begin(), mesh.roles.end(), [](const RankRole& a, const RankRole& b) {
      return a.dry.peak.total() < b.dry.peak.total();
    });
  }
  bool Fits(const RankRole& role) const { return Needs(role) <= capacity; }
  bool fits() const { return Fits(Largest()); }

  // Where there is a time.
  // Of all steps and evaluations, where it is known how many there are; without saves.
  std::optional<double> run_seconds() const {
    if (!time || !data || data->steps.total == 0) return std::nullopt;
    return static_cast<double>(data->steps.total) * time->seconds + evaluation_seconds();
  }
  // Of all evaluations.
  double evaluation_seconds() const {
    return static_cast<double>(data->evaluations * data->evaluation_microbatches) * time->evaluation;
  }
  double tokens_per_second() const { return static_cast<double>(used_tokens) / time->seconds; }
  // Model FLOPs utilisation (Chowdhery et al., "PaLM", 2022, appendix B): what is recomputed does not count,
  // and of attention only the pairs that the causal mask leaves.
  double mfu() const { return needed_flops() / time->seconds / *peak_flops; }
  // What a step's texts need, without the tails of packs, which are computed too.
  double needed_flops() const { return mesh.useful_flops * fill; }
};

}  // namespace ftune
