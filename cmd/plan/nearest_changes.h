// What could be changed in a recipe that does not fit, so that it does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cmd/recipe/load.h"

namespace ftune {

struct FittingChange {
  std::string overrides;  // "train.micro_batch_size=1 train.gradient_accumulation_steps=8"
  int64_t needs = 0;      // bytes of the rank that needs most, with it
};

// Of a resolved recipe that has no other hosts: at most four, those first that change least of what is
// learned. Each has been planned, and fits. The global batch stays; where no single change is enough, they
// are taken together.
std::vector<FittingChange> FindFittingChanges(const LoadedRecipe& loaded);

}  // namespace ftune
