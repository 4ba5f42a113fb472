// Random draws that depend on coordinates only: element (token, column) of a site in a step takes word
// column % 4 of the Philox block with key (first 64 bits of Philox(seed; step, site)) and counter (global
// token, column / 4). So any split of rows and columns over calls, ranks and threads draws the same.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace ftune::cpu {

inline uint64_t DrawKey(uint64_t seed, uint64_t step, uint64_t site) {
  const auto words = Philox(seed, step, site);
  return uint64_t{words[1]} << 32 | words[0];
}

}  // namespace ftune::cpu
