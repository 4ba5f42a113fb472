// Which packs of a global batch a rank gets.
#pragma once

#include <cstdint>

namespace ftune {

// Pack p of a global batch is number p % micro_batch_size of microbatch p / (micro_batch_size × ranks) of
// rank p / micro_batch_size % ranks. So the packs of a global batch are the same for any number of ranks, and
// all ranks have as many microbatches.
struct RankSlice {
  int64_t micro_batch_size = 1;  // packs
  int64_t rank = 0;              // of the data axis
  int64_t ranks = 1;

  // For a global batch of so many packs.
  int64_t MicroBatches(int64_t packs) const {
    const int64_t at_once = micro_batch_size * ranks;
    return (packs + at_once - 1) / at_once;
  }
  // The first pack of this rank's microbatch; it may lie beyond the global batch.
  int64_t FirstPack(int64_t microbatch) const { return (microbatch * ranks + rank) * micro_batch_size; }
};

}  // namespace ftune
