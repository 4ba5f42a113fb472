// How much of each of several datasets an epoch takes, and in which order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/source/dataset.h"

namespace ftune {

enum class MixOrder {
  kConcat,      // one pool, shuffled
  kInterleave,  // each entry shuffled; at every point of the epoch the same share of each has been taken
};

// Samples [begin, end) of a dataset are those of one entry.
struct EntryRange {
  uint32_t begin = 0;
  uint32_t end = 0;
  EntryMix mix;
};

// How many samples an epoch (from 0) takes of an entry, copies included. Each epoch goes on where the one
// before stopped, so that over the epochs every sample gets its turn and none is more than one turn ahead.
int64_t EntrySamples(const EntryRange& entry, int64_t epoch);

// The samples of an epoch: a pure function of its arguments. Empty where all entries are used up.
std::vector<uint32_t> EpochOrder(std::span<const EntryRange> entries, MixOrder mix, uint64_t seed,
                                 int64_t epoch);

}  // namespace ftune
