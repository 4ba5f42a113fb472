// What the tensor axis asks of a block's flat gradients, derived from its parameters' placements: the one
// place where reductions over that axis come from.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/flat_range.h"
#include "engine/model/parameter_store.h"

namespace ftune {

// Gradients of which each rank has a part of the sum.
struct PartialRange {
  FlatRange range;
  int replicas = 1;  // ranks of the tensor axis, side by side, that hold these elements
};

// In ascending order, joined where they touch.
std::vector<PartialRange> PartialRangesOf(const ParameterStore& store);

// The elements that this rank counts in sums over the whole model (the gradient's norm), so that each
// element of the model is counted once.
std::vector<FlatRange> CountedRangesOf(const ParameterStore& store);

}  // namespace ftune
