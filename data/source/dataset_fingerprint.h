// What a dataset's samples are, in short.
#pragma once

#include <cstdint>

#include "data/source/dataset.h"

namespace ftune {

// XXH3-64 of how many samples there are and of where each comes from, its length, trained tokens and row's
// hash, and of the tokens of some: of at most 2^20 and 2^12 of them, at even distances.
uint64_t FingerprintOf(const Dataset& dataset);

}  // namespace ftune
