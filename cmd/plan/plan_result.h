// All that a plan found, before it is put into words.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "cmd/plan/data_facts.h"
#include "cmd/plan/disk_need.h"
#include "cmd/plan/roles.h"
#include "cmd/plan/step_time.h"

namespace ftune {

struct PlanResult {
  RolesOfMesh mesh;
  std::string mesh_in_words;  // "2 ranks: data 2"
  int64_t microbatches = 0;   // of a rank, a step
  int64_t packs = 0;          // of a microbatch
  int64_t pack_tokens = 0;
  int64_t step_tokens = 0;           // of the whole mesh
  int64_t capacity = 0;              // bytes that a rank may have
  std::optional<StepTime> time;      // where the device is known
  std::optional<double> peak_flops;  // a second, of all ranks: what MFU is told of
  // Of this recipe's data and disk, where they were looked at.
  std::optional<DataFacts> data;
  std::optional<DiskNeed> disk;

  double tokens_per_second() const { return static_cast<double>(step_tokens) / time->seconds; }
  // Model FLOPs utilisation (Chowdhery et al., "PaLM", 2022, appendix B): what is recomputed does not count,
  // and of attention only the pairs that the causal mask leaves.
  double mfu() const { return mesh.useful_flops / time->seconds / *peak_flops; }

  bool Fits(const RankRole& role) const { return role.dry.peak.total() <= capacity; }
  int64_t highest_peak() const {
    int64_t highest = 0;
    for (const RankRole& role : mesh.roles) highest = std::max(highest, role.dry.peak.total());
    return highest;
  }
  bool fits() const {
    for (const RankRole& role : mesh.roles) {
      if (!Fits(role)) return false;
    }
    return true;
  }
};

}  // namespace ftune
