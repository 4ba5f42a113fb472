// In which order an epoch takes the samples.
#pragma once

#include <cstdint>
#include <vector>

#include "data/source/dataset.h"

namespace ftune {

// Each sample once, as the dataset has them.
std::vector<int64_t> FixedOrder(const Dataset& dataset);

// Indices of samples, shuffled: a pure function of the dataset, the seed and the epoch. A sample comes
// ⌊weight⌋ times, by the weight of its entry of the dataset; the share that is left over is handed round, so
// that over the epochs every sample of an entry gets its turn.
std::vector<int64_t> ShuffledOrder(const Dataset& dataset, uint64_t seed, int64_t epoch);

}  // namespace ftune
