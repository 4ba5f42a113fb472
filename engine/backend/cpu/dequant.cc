#include "engine/backend/cpu/dequant.h"

#include <cassert>

#include "base/convert.h"
#include "engine/backend/cpu/dequant_blocks.h"
#include "engine/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/dequant.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/dequant_plain-inl.h"
#include "engine/backend/cpu/dequant_super_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR

void ToF32Kernel(DType type, const std::byte* from, int64_t count, float* to) {
  ConvertToF32(type, from, count, to);
}
void FromF32Kernel(DType type, const float* from, int64_t count, std::byte* to) {
  ConvertFromF32(type, from, count, to);
}

#else

// How the values of a type are read: `count` of them, whole blocks.
struct Decoder {
  DType type;
  void (*decode)(const std::byte* from, int64_t count, float* to);
};

template <DType kType, VF (*kLoad)(const std::byte*)>
void Vectors(const std::byte* from, int64_t count, float* to) {
  int64_t done = 0;
  for (; done + Lanes() <= count; done += Lanes()) hn::StoreU(kLoad(from + done * 2), F32(), to + done);
  ConvertToF32(kType, from + done * 2, count - done, to + done);
}

template <class Block, int kValues>
void Blocks(const std::byte* from, int64_t count, float* to) {
  const auto* block = reinterpret_cast<const Block*>(from);
  for (int64_t done = 0; done < count; done += kValues) Decode(*block++, to + done);
}

constexpr Decoder kDecoders[] = {
    {DType::kBF16, Vectors<DType::kBF16, Bf16ToVector>},
    {DType::kF16, Vectors<DType::kF16, F16ToVector>},
    {DType::kQ4_0, Blocks<ggml::Q4_0, 32>},
    {DType::kQ4_1, Blocks<ggml::Q4_1, 32>},
    {DType::kQ5_0, Blocks<ggml::Q5_0, 32>},
    {DType::kQ5_1, Blocks<ggml::Q5_1, 32>},
    {DType::kQ8_0, Blocks<ggml::Q8_0, 32>},
    {DType::kIQ4_NL, Blocks<ggml::IQ4_NL, 32>},
    {DType::kQ2_K, Blocks<ggml::Q2_K, 256>},
    {DType::kQ3_K, Blocks<ggml::Q3_K, 256>},
    {DType::kQ4_K, Blocks<ggml::Q4_K, 256>},
    {DType::kQ5_K, Blocks<ggml::Q5_K, 256>},
    {DType::kQ6_K, Blocks<ggml::Q6_K, 256>},
};

void ToF32Kernel(DType type, const std::byte* from, int64_t count, float* to) {
  for (const Decoder& decoder : kDecoders) {
    if (decoder.type == type) return decoder.decode(from, count, to);
  }
  ConvertToF32(type, from, count, to);
}

void FromF32Kernel(DType type, const float* from, int64_t count, std::byte* to) {
  int64_t done = 0;
  if (type == DType::kBF16) {
    for (; done + Lanes() <= count; done += Lanes()) StoreBf16(hn::LoadU(F32(), from + done), to + done * 2);
  } else if (type == DType::kF16) {
    for (; done + Lanes() <= count; done += Lanes()) StoreF16(hn::LoadU(F32(), from + done), to + done * 2);
  }
  ConvertFromF32(type, from + done, count - done, to + BytesFor(type, done));
}

#endif
}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {

HWY_EXPORT(ToF32Kernel);
HWY_EXPORT(FromF32Kernel);

void ToF32(DType type, const std::byte* from, int64_t count, float* to) {
  assert(count % BlockSize(type) == 0);
  HWY_DYNAMIC_DISPATCH(ToF32Kernel)(type, from, count, to);
}

void FromF32(DType type, const float* from, int64_t count, std::byte* to) {
  HWY_DYNAMIC_DISPATCH(FromF32Kernel)(type, from, count, to);
}

void ReadRow(const Tensor& x, int64_t row, int64_t first, int64_t count, float* to) {
  if (IsQuantizedWhole(x.dtype())) {
    const int64_t begin = x.first() + row * x.stride() + first;
    DequantizeBlocks(x.dtype(), x.bytes(), x.whole_size(), begin, count, to);
  } else {
    ToF32(x.dtype(), RowBytes(x, row) + BytesFor(x.dtype(), first), count, to);
  }
}

void Dequantize(ThreadPool& pool, const Tensor& from, float* to, int64_t to_stride) {
  ParallelRows(pool, from.rows(), from.cols(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      ReadRow(from, row, 0, from.cols(), to + row * to_stride);
    }
  });
}

F32Row::F32Row(const Tensor& row) {
  if (row.dtype() == DType::kF32) {
    data_ = row.f32();
    return;
  }
  converted_.resize(row.size());
  ReadRow(row, 0, 0, row.size(), converted_.data());
  data_ = converted_.data();
}

}  // namespace ftune::cpu
#endif
