// What a rank of the tensor axis reads of a tensor in a file.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/format/weight_source.h"
#include "engine/model/parameter_store.h"

namespace ftune {

// The slice of `tensor`, which has the parameter's global shape, that the parameter holds. Its bytes are the
// file's, or `copied` where they do not lie side by side there (`copy` false: any as many). An error if the
// slice would cut through blocks of values that are quantised together.
absl::StatusOr<SourceTensor> SliceForRank(const SourceTensor& tensor, const Parameter& parameter, bool copy,
                                          std::vector<std::byte>& copied);

}  // namespace ftune
