// Where what a rank holds of a tensor lies in the whole tensor.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/placement.h"

namespace ftune {

// Elements that lie side by side on the rank and in the whole, both counted in row-major order.
struct GlobalRun {
  int64_t local = 0;
  int64_t global = 0;
  int64_t count = 0;
  bool operator==(const GlobalRun&) const = default;
};

// The local elements [begin, begin + count) of a tensor of which at most one dimension is cut, in ascending
// order, in as few runs as there are.
std::vector<GlobalRun> GlobalRunsOf(const std::vector<Dimension>& dims, int64_t begin, int64_t count);

}  // namespace ftune
