#include "engine/format/tensor_slice.h"

#include <algorithm>
#include <cstring>

#include "base/block_quant.h"
#include "base/error.h"
#include "base/strings.h"
#include "parallel/global_runs.h"

namespace ftune {
namespace {

absl::Status CheckBlocks(const SourceTensor& tensor, const Parameter& parameter,
                         const std::vector<GlobalRun>& runs, DType dtype, int64_t block) {
  const bool whole = std::all_of(runs.begin(), runs.end(), [&](const GlobalRun& run) {
    return run.global % block == 0 && run.count % block == 0;
  });
  if (whole) return absl::OkStatus();
  return UsageError(
      {.file = tensor.file,
       .key = "parallel.tensor",
       .message = StrCat(tensor.name, " [", StrJoin(tensor.shape, ", "), "] in ", Name(dtype),
                         " cannot be cut: values are quantised in blocks of ", block),
       .found = StrCat(parameter.position.size, " ranks with [", StrJoin(parameter.local_shape, ", "), "]"),
       .expected = "slices of whole blocks",
       .hint = "use fewer ranks on the axis, or weights that are not quantised in this way"});
}

}  // namespace

absl::StatusOr<SourceTensor> SliceForRank(const SourceTensor& tensor, const Parameter& parameter, bool copy,
                                          std::vector<std::byte>& copied) {
  if (parameter.placement() == Placement::Replicate()) return tensor;
  const std::vector<GlobalRun> runs = GlobalRunsOf(parameter.dims, 0, parameter.size());
  if (IsQuantized(tensor.dtype)) {
    FTUNE_RETURN_IF_ERROR(CheckBlocks(tensor, parameter, runs, tensor.dtype, BlockSize(tensor.dtype)));
  }
  if (IsQuantizedWhole(parameter.dtype)) {
    FTUNE_RETURN_IF_ERROR(CheckBlocks(tensor, parameter, runs, parameter.dtype, kQuantBlock));
  }
  SourceTensor slice = tensor;
  slice.shape = parameter.local_shape;
  // Only rows of whole heads are interleaved, and only whole heads are cut off.
  slice.interleaved_heads = tensor.interleaved_heads * slice.shape[0] / tensor.shape[0];
  const auto offset = [&](int64_t elements) { return BytesFor(tensor.dtype, elements); };
  if (runs.size() == 1 || !copy) {
    slice.bytes =
        tensor.bytes.subspan(runs.size() == 1 ? offset(runs[0].global) : 0, offset(parameter.size()));
    return slice;
  }
  copied.resize(offset(parameter.size()));
  for (const GlobalRun& run : runs) {
    std::memcpy(copied.data() + offset(run.local), tensor.bytes.data() + offset(run.global),
                offset(run.count));
  }
  slice.bytes = copied;
  return slice;
}

}  // namespace ftune
