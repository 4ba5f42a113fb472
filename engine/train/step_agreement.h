// Whether all ranks are at the same step, with the same facts of it.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "parallel/mesh.h"

namespace ftune {

struct StepFacts {
  int64_t step = 0;
  int64_t trained_tokens = 0;
  int64_t microbatches = 0;
  int64_t schedule = 0;  // a hash of what all ranks of the pipeline do
  // A hash of what the rank trains on, the same on all ranks of a data coordinate; 0 where each is alone on
  // its own.
  int64_t batches = 0;
};

// `facts` are those of all ranks, in order: an error where they are not as they must be. `rank` is this one.
absl::Status CheckSame(const MeshShape& shape, const std::vector<StepFacts>& facts, int rank);

// Waits for all ranks. An error where their facts differ, or of the world.
absl::Status AgreeOnFacts(Mesh& mesh, Stream stream, const StepFacts& own);

}  // namespace ftune
