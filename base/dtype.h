// Element types of tensors in memory and in files, plain and block-quantised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace ftune {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF64,
  kI8,
  kU8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kBool,
  // GGML's quantised blocks; base/ggml_layout.h has the layouts. Of 32 values:
  kQ4_0,  // fp16 scale, 16 bytes of nibbles, value = scale * (q - 8)
  kQ4_1,  // fp16 scale, fp16 minimum, 16 bytes of nibbles, value = scale * q + minimum
  kQ8_0,  // fp16 scale, 32 int8, value = scale * q
  kQ5_0,  // as Q4_0 and Q4_1 with a fifth bit
  kQ5_1,
  // Of 256 values, in groups with scales (and minima) of their own, which are multiples of the block's.
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,  // 32 values: fp16 scale, 16 bytes of indices into a table of 16 integers
  // bitsandbytes' types for frozen weights, in memory only (base/block_quant.h): blocks of 64 values run on
  // over the rows of a tensor, whose scales stand behind all of its codes.
  kNF4,   // 4 bits, quantiles of a normal distribution; scales themselves in 8 bits
  kFP4,   // 4 bits, sign, two of exponent, one of mantissa; scales likewise
  kInt8,  // 8-bit dynamic map, f32 scales
};

// Values per block (1 for plain types).
int64_t BlockSize(DType dtype);
// Bytes of one block.
int64_t BlockBytes(DType dtype);
// Bytes of `count` values; `count` must be a multiple of BlockSize, unless the type is quantised as a whole:
// then they are the bytes of a tensor of that size.
int64_t BytesFor(DType dtype, int64_t count);
inline bool IsQuantized(DType dtype) { return BlockSize(dtype) > 1; }
// True for types whose tensors are one piece: a part of one has no bytes of its own, only a place in the
// whole.
inline bool IsQuantizedWhole(DType dtype) {
  return dtype == DType::kNF4 || dtype == DType::kFP4 || dtype == DType::kInt8;
}
// True for types whose values are real numbers that a weight may be stored in.
bool IsFloat(DType dtype);

// ftune's own lower-case name ("f32", "bf16", "q4_1"), used in recipes, logs and plans.
std::string_view Name(DType dtype);
// From ftune's name, safetensors' ("F32", "BF16") or PyTorch's ("float32", "bfloat16"); an error names the
// text.
absl::StatusOr<DType> ParseDType(std::string_view text);
// safetensors' name ("F32"); empty for types that it does not have.
std::string_view SafetensorsName(DType dtype);

}  // namespace ftune
