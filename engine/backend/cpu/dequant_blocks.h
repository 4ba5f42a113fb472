// Tensors of the types of base/block_quant.h: the vectorised twin of its DequantizeRange, equal to the bit,
// and quantising with all threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/backend/cpu/parallel.h"
#include "engine/tensor/tensor.h"

namespace ftune::cpu {

// Values [first, first + count) of a tensor of `size` values at `from`.
void DequantizeBlocks(DType dtype, const std::byte* from, int64_t size, int64_t first, int64_t count,
                      float* to);

// As Backend::Quantize says. The same bytes for any number of threads.
void Quantize(ThreadPool& pool, const Tensor& from, const Tensor& to, const Tensor& scales);

}  // namespace ftune::cpu
