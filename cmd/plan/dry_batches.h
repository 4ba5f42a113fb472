// Batches of no data: their shape is all that memory and time depend on.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cmd/recipe/recipe.h"
#include "data/loader/batch.h"

namespace ftune {

enum class PackContent {
  kFull,   // as many tokens as there can be, of one text, all of which train
  kLeast,  // as few as a pack may be of, where data.packing does not fill it up, of which one trains
};

// What the packs of some data are like on the mean.
struct TypicalPack {
  int64_t capacity = 0;  // tokens, with the tail
  int64_t used = 0;      // without it
  int64_t trained = 0;
  int64_t text = 0;  // tokens of each of its texts, were they of one length: as many pairs are attended to

  double fill() const { return static_cast<double>(used) / static_cast<double>(capacity); }
};

// A rank's microbatches of a step, of as many packs as there can be; where it is given, of such packs.
std::vector<Batch> DryMicrobatches(const Recipe& recipe, PackContent content,
                                   const std::optional<TypicalPack>& typical = std::nullopt);

}  // namespace ftune
