// ggml's quantised blocks to fp32; part of base/convert.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace ftune {

// Decodes `blocks` blocks at `from` (any alignment).
using BlockDecoder = void (*)(const std::byte* from, int64_t blocks, float* to);
// nullptr for a type that is not ggml's. Each product and sum is rounded on its own, as ggml's reference
// does.
BlockDecoder FindGgmlDecoder(DType dtype);

}  // namespace ftune
