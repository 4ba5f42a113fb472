// What a step took: of one rank, and of all together.
#pragma once

#include <vector>

#include "engine/tensor/ledger.h"
#include "parallel/mesh.h"

namespace ftune {

struct StepCosts {
  int64_t tokens = 0;  // of the samples in the rank's microbatches, packing gaps not counted
  double flops = 0.0;  // what its blocks need for them
  MemoryUse memory;    // at the rank's peak
};

struct WorldCosts {
  int64_t tokens = 0;  // of the global batch
  double flops = 0.0;
  MemoryUse memory;  // of the rank that needs most
  int memory_rank = 0;
};

// As `rank` sees them; `costs` are by rank of the world.
WorldCosts TotalOf(const MeshShape& shape, int rank, const std::vector<StepCosts>& costs);

}  // namespace ftune
