// The size of a tensor whose type and shape come from a file.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "base/dtype.h"

namespace ftune {

// Bytes of a tensor of this type and shape; an error (naming no file) if that does not fit 63 bits, a
// dimension is negative or the values do not fill whole blocks.
absl::StatusOr<int64_t> CheckedBytes(DType dtype, std::span<const int64_t> shape);

}  // namespace ftune
