#include "base/tensor_bytes.h"

#include "base/strings.h"

namespace ftune {

absl::StatusOr<int64_t> CheckedBytes(DType dtype, std::span<const int64_t> shape) {
  int64_t count = 1;
  bool overflow = false;
  for (const int64_t dim : shape) {
    if (dim < 0) return absl::InvalidArgumentError("a dimension is negative");
    // A zero dimension makes the product zero however large the others are, but they must not overflow before
    // it.
    overflow |= __builtin_mul_overflow(count, dim, &count);
  }
  int64_t bytes = 0;
  overflow |= __builtin_mul_overflow(count, BlockBytes(dtype), &bytes);
  if (overflow) {
    return absl::InvalidArgumentError(
        StrCat("shape [", StrJoin(shape, ", "), "] is too large: its bytes do not fit 63 bits"));
  }
  const int64_t last = shape.empty() ? 1 : shape.back();
  if (last % BlockSize(dtype) != 0) {
    return absl::InvalidArgumentError(StrCat("the last dimension ", last, " is not a multiple of ",
                                             BlockSize(dtype), ", the block of ", Name(dtype)));
  }
  return BytesFor(dtype, count);
}

}  // namespace ftune
