// Rows of weights to fp32 and back: the vectorised twins of base/convert.h, equal to it to the bit (but for
// the payload of NaNs).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/backend/cpu/parallel.h"
#include "engine/tensor/tensor.h"

namespace ftune::cpu {

// `count` values at `from` (a multiple of the type's block) to fp32.
void ToF32(DType type, const std::byte* from, int64_t count, float* to);
// `count` fp32 values to f32, bf16 or f16.
void FromF32(DType type, const float* from, int64_t count, std::byte* to);

// `count` values of row `row` of x, from column `first` on, to fp32: weights of any type.
void ReadRow(const Tensor& x, int64_t row, int64_t first, int64_t count, float* to);

// to = from in fp32, row by row; `to` has rows of `to_stride` floats.
void Dequantize(ThreadPool& pool, const Tensor& from, float* to, int64_t to_stride);

// The values of a [1, n] weight as fp32: in place, or converted where it is of another type.
class F32Row {
 public:
  explicit F32Row(const Tensor& row);
  const float* data() const { return data_; }

 private:
  std::vector<float> converted_;
  const float* data_;
};

// Not for types that are quantised as a whole, whose rows have no bytes of their own.
inline std::byte* RowBytes(const Tensor& x, int64_t row) {
  return x.bytes() + BytesFor(x.dtype(), row * x.stride());
}

}  // namespace ftune::cpu
