// Memory that a model's blocks take turns in. The embedding and the head share a slot, neighbouring decoder
// blocks have different ones: while one is used, the next can be fetched or the one before sent away. So a
// block is always at the same place.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/model/model.h"

namespace ftune {

inline constexpr size_t kBlockSlots = 4;

// Below kBlockSlots.
inline size_t SlotOf(const Model& model, size_t block) {
  const size_t number = model.blocks()[block]->number();
  if (number == 0) return 0;
  // A head that borrows the embedding's weight is used together with it.
  if (model.is_head(block)) return model.lender(block) ? 3 : 0;
  return 1 + number % 2;
}

}  // namespace ftune
