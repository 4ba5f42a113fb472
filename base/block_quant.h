// The quantised weights of QLoRA (Dettmers et al., "QLoRA: efficient finetuning of quantized LLMs", 2023),
// equal to bitsandbytes' to the bit: NF4 and FP4 with double quantisation, and blockwise int8. The scalar
// reference.
//
// The values of a tensor, row after row, are cut into blocks of 64; the last one may be partial. Its bytes:
//   codes   of every block: 32 bytes of nibbles (of a pair of values the first has the high half), or 64
//   bytes;
//           a partial block is filled up with zero bits
//   scales  the largest magnitude of every block. kInt8: f32. kNF4 and kFP4: 8-bit codes of it less the mean
//   of
//           all, in blocks of 256; then, from a multiple of 4 on, an f32 for each of those and the mean, f32.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace ftune {

inline constexpr int64_t kQuantBlock = 64;        // values that share a scale
inline constexpr int64_t kQuantScaleBlock = 256;  // scales that share an outer scale

// Where the parts of a tensor of `count` values are, in bytes from its beginning.
struct BlockQuantLayout {
  BlockQuantLayout(DType dtype, int64_t count);
  int64_t blocks;
  int64_t scales;
  int64_t outer;  // kNF4, kFP4
  int64_t mean;   // likewise
  int64_t bytes;
};

// The values of the 16 codes of kNF4 or kFP4.
const std::array<float, 16>& FourBitValues(DType dtype);

// Quantising, in two halves, so that the first can be done by many threads. Codes of blocks [begin, end) of
// `values`, the whole tensor, to `to`, all of its bytes; and the blocks' scales to `scales` (one a block of
// the tensor). A block with a value that is not finite has the scale NaN.
void QuantizeBlocks(DType dtype, std::span<const float> values, int64_t begin, int64_t end, std::byte* to,
                    float* scales);
// The scales of all blocks to `to`. With one of NaN, all values of a kNF4 or kFP4 tensor are NaN.
void QuantizeScales(DType dtype, int64_t count, std::span<const float> scales, std::byte* to);

// The scales of `count` blocks from block `first` on, of a tensor at `from` with that layout.
void BlockScales(DType dtype, const std::byte* from, const BlockQuantLayout& layout, int64_t first,
                 int64_t count, float* scales);

// Values [first, first + count) of a tensor of `size` values at `from`.
void DequantizeRange(DType dtype, const std::byte* from, int64_t size, int64_t first, int64_t count,
                     float* values);

}  // namespace ftune
