// fp32 to ggml's quantised blocks, by the rules of ggml's reference quantisers (quantize_row_*_ref of
// ggml-quants.c), equal to them to the bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace ftune {

// Q8_0, Q4_0 and Q4_K.
bool IsQuantizationTarget(DType to);

// `count` values (a multiple of BlockSize) to blocks at `destination` (any alignment). False, with the
// destination undefined, where a value is not finite or so large that its block's scale does not fit fp16.
bool Quantize(DType to, const float* source, int64_t count, std::byte* destination);

}  // namespace ftune
