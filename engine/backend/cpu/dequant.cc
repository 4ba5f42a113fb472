#include "engine/backend/cpu/dequant.h"

#include <cassert>

#include "base/convert.h"
#include "engine/backend/cpu/dequant_blocks.h"
#include "engine/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/dequant.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/simd-inl.h"

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

using U16 = hn::Rebind<uint16_t, F32>;
using F16 = hn::Rebind<hwy::float16_t, F32>;
using U8 = hn::Rebind<uint8_t, F32>;
using I8 = hn::Rebind<int8_t, F32>;

HWY_INLINE VF Bf16ToVector(const std::byte* from) {
  const auto bits = hn::LoadU(U16(), reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(U32(), bits)));
}

HWY_INLINE VF F16ToVector(const std::byte* from) {
  return hn::PromoteTo(F32(), hn::LoadU(F16(), reinterpret_cast<const hwy::float16_t*>(from)));
}

// Rounds to nearest even; NaN is made quiet, so that its mantissa cannot round to infinity's.
HWY_INLINE void StoreBf16(VF v, std::byte* to) {
  const VU bits = hn::BitCast(U32(), v);
  const VU high = hn::ShiftRight<16>(bits);
  const VU odd = hn::And(high, hn::Set(U32(), 1));
  const VU rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(U32(), 0x7fff))));
  const auto nan = hn::RebindMask(U32(), hn::IsNaN(v));
  const VU result = hn::IfThenElse(nan, hn::Or(high, hn::Set(U32(), 0x40)), rounded);
  hn::StoreU(hn::DemoteTo(U16(), hn::BitCast(I32(), result)), U16(), reinterpret_cast<uint16_t*>(to));
}

HWY_INLINE void StoreF16(VF v, std::byte* to) {
  hn::StoreU(hn::DemoteTo(F16(), v), F16(), reinterpret_cast<hwy::float16_t*>(to));
}

// The fp16 scale (and minimum) at the head of a block.
struct BlockHead {
  float scale;
  float minimum;
};
HWY_INLINE BlockHead LoadHead(const std::byte* block) {
  const hn::CappedTag<float, 4> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> d16;
  HWY_ALIGN float values[4];
  hn::Store(hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(block))), d, values);
  return {values[0], values[1]};
}

// 16 bytes of nibbles: value = scale * (nibble - offset) + minimum, each step rounded.
template <bool kMinimum>
HWY_INLINE void Nibbles(const std::byte* packed, float scale, int offset, float minimum, float* to) {
  const VF scales = Set(scale);
  const auto value = [&](VI nibble) HWY_ATTR {
    if constexpr (kMinimum) {
      return hn::Add(hn::Mul(scales, hn::ConvertTo(F32(), nibble)), Set(minimum));
    } else {
      return hn::Mul(scales, hn::ConvertTo(F32(), hn::Sub(nibble, hn::Set(I32(), offset))));
    }
  };
  for (int64_t j = 0; j < 16; j += Lanes()) {
    const VI bytes = hn::PromoteTo(I32(), hn::LoadU(U8(), reinterpret_cast<const uint8_t*>(packed + j)));
    hn::StoreU(value(hn::And(bytes, hn::Set(I32(), 15))), F32(), to + j);
    hn::StoreU(value(hn::ShiftRight<4>(bytes)), F32(), to + 16 + j);
  }
}

HWY_INLINE void Q8_0Block(const std::byte* block, float* to) {
  const VF scale = Set(LoadHead(block).scale);
  for (int64_t j = 0; j < 32; j += Lanes()) {
    const VI values = hn::PromoteTo(I32(), hn::LoadU(I8(), reinterpret_cast<const int8_t*>(block + 2 + j)));
    hn::StoreU(hn::Mul(scale, hn::ConvertTo(F32(), values)), F32(), to + j);
  }
}

void ToF32Kernel(DType type, const std::byte* from, int64_t count, float* to) {
  int64_t done = 0;
  switch (type) {
    case DType::kBF16:
      for (; done + Lanes() <= count; done += Lanes()) {
        hn::StoreU(Bf16ToVector(from + done * 2), F32(), to + done);
      }
      break;
    case DType::kF16:
      for (; done + Lanes() <= count; done += Lanes()) {
        hn::StoreU(F16ToVector(from + done * 2), F32(), to + done);
      }
      break;
    case DType::kQ4_0:
      for (; done < count; done += 32, from += 18) {
        Nibbles<false>(from + 2, LoadHead(from).scale, 8, 0.0f, to + done);
      }
      return;
    case DType::kQ4_1:
      for (; done < count; done += 32, from += 20) {
        const BlockHead head = LoadHead(from);
        Nibbles<true>(from + 4, head.scale, 0, head.minimum, to + done);
      }
      return;
    case DType::kQ8_0:
      for (; done < count; done += 32, from += 34) Q8_0Block(from, to + done);
      return;
    default:
      break;
  }
  ConvertToF32(type, from + BytesFor(type, done), count - done, to + done);
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
