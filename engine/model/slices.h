// A parameter's elements between the whole of it and the slice that a rank of the tensor axis holds, on the
// host.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/parameter_store.h"

namespace ftune {

// Elements side by side in both the whole and a slice, row-major.
struct SliceRun {
  int64_t whole = 0;
  int64_t local = 0;
  int64_t count = 0;
};
// Those of the rank, in ascending order; joined where they touch.
std::vector<SliceRun> SliceRuns(const std::vector<Dimension>& dims, int rank);

// This rank's elements of `whole`.
template <class T>
std::vector<T> SliceOf(const Parameter& parameter, const std::vector<T>& whole) {
  if (parameter.placement() == Placement::Replicate()) return whole;
  std::vector<T> slice;
  for (const SliceRun& run : SliceRuns(parameter.dims, parameter.position.rank)) {
    slice.insert(slice.end(), whole.begin() + run.whole, whole.begin() + run.whole + run.count);
  }
  return slice;
}

}  // namespace ftune
