// All that a plan found, before it is put into words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cmd/plan/data_facts.h"
#include "cmd/plan/disk_need.h"
#include "cmd/plan/roles.h"

namespace ftune {

struct PlanResult {
  RolesOfMesh mesh;
  std::string mesh_in_words;  // "2 ranks: data 2"
  int64_t microbatches = 0;   // of a rank, a step
  int64_t packs = 0;          // of a microbatch
  int64_t pack_tokens = 0;
  int64_t step_tokens = 0;  // of the whole mesh
  int64_t capacity = 0;     // bytes that a rank may have
  // Of this recipe's data and disk, where they were looked at.
  std::optional<DataFacts> data;
  std::optional<DiskNeed> disk;

  bool Fits(const RankRole& role) const { return role.dry.peak.total() <= capacity; }
  bool fits() const {
    for (const RankRole& role : mesh.roles) {
      if (!Fits(role)) return false;
    }
    return true;
  }
};

}  // namespace ftune
