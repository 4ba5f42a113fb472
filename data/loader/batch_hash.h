// A hash of batches.
#pragma once

#include <cstdint>
#include <span>

#include "data/loader/batch.h"

namespace ftune {

// XXH3-64 of all that the batches say, in order: shapes, ids, positions, labels, segments, first tokens.
uint64_t HashOf(std::span<const Batch> batches);

}  // namespace ftune
