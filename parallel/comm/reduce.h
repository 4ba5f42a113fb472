// Element-wise reduction of several ranks' buffers, in the order of the ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "parallel/comm/call.h"

namespace ftune {

// Whether Reduce takes the type: f32, f64, bf16, f16, i64.
bool IsReducible(DType dtype);

// out[i] = op of sources[0][i], sources[1][i], …; out may be one of the sources. bf16 and f16 are reduced in
// f32 and rounded once. The average of integers is rounded towards zero.
void Reduce(DType dtype, ReduceOp op, std::span<const std::byte* const> sources, int64_t count,
            std::byte* out);

// f32, f64 or i64: the average of `ranks` values from their sum, as Reduce has it.
void SumToAverage(DType dtype, int64_t ranks, int64_t count, std::byte* values);

}  // namespace ftune
