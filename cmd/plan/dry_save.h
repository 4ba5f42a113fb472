// A save of a rank that is run dry: what it takes of memory, and of the disk.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "cmd/recipe/recipe.h"
#include "engine/format/loaded_model.h"
#include "engine/optim/optimizer.h"

namespace ftune {

// Bytes on the disk.
struct SavedBytes {
  int64_t checkpoint = 0;  // of each; in this rank's files
  int64_t result = 0;      // of the model's tensors, or the adapter's, that are here
  int64_t states = 0;      // that memory.offload keeps there while the run goes on

  // Those of `count` ranks that share a model with others.
  void Add(const SavedBytes& of_rank, int64_t count) {
    checkpoint += count * of_rank.checkpoint;
    states += count * of_rank.states;
  }
};

struct DrySave {
  SavedBytes bytes;
  Tensor snapshot;  // what a save in the background keeps from the first one on; else undefined
};

// All outlive the result.
absl::StatusOr<DrySave> SaveDry(const Recipe& recipe, Backend& backend, LoadedModel& model,
                                const Optimizer& optimizer);

}  // namespace ftune
