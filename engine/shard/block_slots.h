// Memory that a model's blocks take turns in. The embedding and the head share a slot, neighbouring decoder
// blocks have different ones: while one is used, the next can be fetched or the one before sent away. So a
// block is always at the same place.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ftune {

inline constexpr size_t kBlockSlots = 4;

// `apart`: the head is used together with the embedding, whose weight it borrows.
inline size_t SlotOf(size_t block, size_t blocks, bool apart) {
  if (block == 0) return 0;
  if (block + 1 == blocks) return apart ? 3 : 0;
  return 1 + block % 2;
}

}  // namespace ftune
