// Batches of no data: their shape is all that memory depends on.
#pragma once

#include <vector>

#include "cmd/recipe/recipe.h"
#include "data/loader/batch.h"

namespace ftune {

enum class PackContent {
  kFull,   // as many tokens as there can be, of one text, all of which train
  kLeast,  // as few as a pack may be of, where data.packing does not fill it up, of which one trains
};

// A rank's microbatches of a step, of as many packs as there can be.
std::vector<Batch> DryMicrobatches(const Recipe& recipe, PackContent content);

}  // namespace ftune
