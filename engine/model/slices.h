// A parameter's elements between the whole of it and the slice that a rank of the tensor axis holds, on the
// host.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/model/parameter_store.h"
#include "engine/model/tensor_axis.h"
#include "parallel/global_runs.h"

namespace ftune {

// This rank's elements of `whole`.
template <class T>
std::vector<T> SliceOf(const Parameter& parameter, const std::vector<T>& whole) {
  std::vector<T> slice;
  slice.reserve(parameter.size());
  for (const GlobalRun& run : GlobalRunsOf(parameter.dims, 0, parameter.size())) {
    const auto first = whole.begin() + run.global;
    slice.insert(slice.end(), first, first + run.count);
  }
  return slice;
}

// All of the parameter's elements, from those that each rank of the axis holds: `own`, of this rank. Called
// by all ranks. `dtype` is not quantised.
void GatherWhole(const TensorAxis& axis, const Parameter& parameter, DType dtype,
                 std::span<const std::byte> own, std::byte* whole);

}  // namespace ftune
