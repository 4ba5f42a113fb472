#include "engine/shard/tensor_ranges.h"

namespace ftune {

std::vector<PartialRange> PartialRangesOf(const ParameterStore&) { return {}; }

std::vector<FlatRange> CountedRangesOf(const ParameterStore& store) {
  if (!store.has_trainable()) return {};
  return {{0, store.trainable_size()}};
}

}  // namespace ftune
