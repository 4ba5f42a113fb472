// Batches of no data: their shape is all that memory depends on.
#pragma once

#include <vector>

#include "cmd/recipe/recipe.h"
#include "data/loader/batch.h"

namespace ftune {

// A rank's microbatches of a step: as many packs of so many tokens as there can be, each one text of which
// all tokens train.
std::vector<Batch> FullMicrobatches(const Recipe& recipe);

}  // namespace ftune
