// Q4_K's quantiser; part of base/ggml_quantize.
#pragma once

#include "base/ggml_layout.h"

namespace ftune {

// 256 finite values of at most 1e9. Each group of 32 gets a scale and a minimum by a weighted least-squares
// search (larger values weigh more), then these are rounded to six bits in units of the block's.
ggml::Q4_K QuantizeQ4_K(const float* x);

}  // namespace ftune
