// Conversion between element types: the scalar reference that every vectorised kernel must equal to the bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace ftune {

// IEEE 754 binary16 and bfloat16 held as bits. To 16 bits: round to nearest, ties to even; NaN stays NaN;
// what is too large becomes infinity. To fp32: exact.
float HalfToFloat(uint16_t half);
uint16_t FloatToHalf(float value);
float Bf16ToFloat(uint16_t bf16);
uint16_t FloatToBf16(float value);

// `count` values at `source` (any alignment) to fp32. `from` must satisfy IsFloat; for a quantised type
// `count` must be a multiple of its BlockSize. Dequantisation rounds as ggml's reference does (each product
// and sum on its own).
void ConvertToF32(DType from, const std::byte* source, int64_t count, float* destination);

// Whether ConvertFromF32 writes this type: fp32, fp16 and bf16.
bool IsConversionTarget(DType to);
// `count` fp32 values to `to` at `destination` (any alignment).
void ConvertFromF32(DType to, const float* source, int64_t count, std::byte* destination);

}  // namespace ftune
