#include "engine/backend/cpu/dequant_blocks.h"

#include <algorithm>
#include <span>

#include "base/block_quant.h"
#include "base/dynamic_map.h"
#include "engine/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/dequant_blocks.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "engine/backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

using U8 = hn::Rebind<uint8_t, F32>;

// The 16 values of a 4-bit type times a block's scale, looked up in registers where they fit into two.
class ScaledValues {
 public:
  HWY_INLINE ScaledValues(const float* values, float scale) {
    for (int64_t i = 0; i < 16; i += Lanes()) {
      hn::Store(hn::Mul(hn::LoadU(F32(), values + i), Set(scale)), F32(), scaled_ + i);
    }
  }
  // Of codes 0 to 15.
  HWY_INLINE VF Lookup(VI codes) const {
#if HWY_HAVE_SCALABLE
    return hn::GatherIndex(F32(), scaled_, codes);
#else
    if constexpr (hn::MaxLanes(F32()) == 16) {
      return hn::TableLookupLanes(hn::Load(F32(), scaled_), hn::IndicesFromVec(F32(), codes));
    } else if constexpr (hn::MaxLanes(F32()) == 8) {
      const auto lower = hn::IndicesFromVec(F32(), hn::And(codes, hn::Set(I32(), 7)));
      return hn::IfThenElse(hn::RebindMask(F32(), hn::Gt(codes, hn::Set(I32(), 7))),
                            hn::TableLookupLanes(hn::Load(F32(), scaled_ + 8), lower),
                            hn::TableLookupLanes(hn::Load(F32(), scaled_), lower));
    } else {
      return hn::GatherIndex(F32(), scaled_, codes);
    }
#endif
  }

 private:
  HWY_ALIGN float scaled_[16];
};

HWY_INLINE VI LoadCodes(const uint8_t* codes) { return hn::PromoteTo(I32(), hn::LoadU(U8(), codes)); }

// 32 bytes: of each the high half comes first.
HWY_INLINE void FourBitBlock(const uint8_t* packed, const ScaledValues& values, float* to) {
  const hn::FixedTag<uint8_t, 16> bytes_tag;
  HWY_ALIGN uint8_t codes[kQuantBlock];
  for (int64_t i = 0; i < kQuantBlock / 2; i += 16) {
    const auto bytes = hn::LoadU(bytes_tag, packed + i);
    const auto high = hn::ShiftRight<4>(bytes);
    const auto low = hn::And(bytes, hn::Set(bytes_tag, 15));
    hn::Store(hn::InterleaveLower(bytes_tag, high, low), bytes_tag, codes + 2 * i);
    hn::Store(hn::InterleaveUpper(bytes_tag, high, low), bytes_tag, codes + 2 * i + 16);
  }
  for (int64_t i = 0; i < kQuantBlock; i += Lanes()) {
    hn::StoreU(values.Lookup(LoadCodes(codes + i)), F32(), to + i);
  }
}

HWY_INLINE void Int8Block(const uint8_t* codes, const float* map, float scale, float* to) {
  for (int64_t i = 0; i < kQuantBlock; i += Lanes()) {
    hn::StoreU(hn::Mul(hn::GatherIndex(F32(), map, LoadCodes(codes + i)), Set(scale)), F32(), to + i);
  }
}

#endif

// Blocks [first, first + count), whole ones.
void WholeBlocks(DType dtype, const std::byte* from, int64_t size, int64_t first, int64_t count, float* to) {
#if HWY_TARGET == HWY_SCALAR
  const int64_t values = std::min(count * kQuantBlock, size - first * kQuantBlock);
  DequantizeRange(dtype, from, size, first * kQuantBlock, values, to);
#else
  constexpr int64_t kRun = 32;
  const BlockQuantLayout layout(dtype, size);
  const auto* codes = reinterpret_cast<const uint8_t*>(from);
  const float* map = DynamicMap::Signed().values().data();
  float scales[kRun];
  for (int64_t done = 0; done < count; done += kRun) {
    const int64_t run = std::min(kRun, count - done);
    BlockScales(dtype, from, layout, first + done, run, scales);
    for (int64_t i = 0; i < run; ++i, to += kQuantBlock) {
      const int64_t value = (first + done + i) * kQuantBlock;
      if (dtype == DType::kInt8) {
        Int8Block(codes + value, map, scales[i], to);
      } else {
        FourBitBlock(codes + value / 2, ScaledValues(FourBitValues(dtype).data(), scales[i]), to);
      }
    }
  }
#endif
}

}  // namespace ftune::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune::cpu {

HWY_EXPORT(WholeBlocks);

void DequantizeBlocks(DType dtype, const std::byte* from, int64_t size, int64_t first, int64_t count,
                      float* to) {
  // Where the range begins or ends within a block, the block goes through a buffer: all have all their codes.
  const auto part = [&](int64_t begin, int64_t length) {
    float values[kQuantBlock];
    HWY_DYNAMIC_DISPATCH(WholeBlocks)(dtype, from, size, begin / kQuantBlock, 1, values);
    std::copy_n(values + begin % kQuantBlock, length, to);
    to += length;
  };
  const int64_t end = first + count;
  if (first % kQuantBlock != 0) {
    const int64_t length = std::min(kQuantBlock - first % kQuantBlock, count);
    part(first, length);
    first += length;
  }
  const int64_t blocks = (end - first) / kQuantBlock;
  if (blocks > 0) {
    HWY_DYNAMIC_DISPATCH(WholeBlocks)(dtype, from, size, first / kQuantBlock, blocks, to);
    to += blocks * kQuantBlock;
    first += blocks * kQuantBlock;
  }
  if (first < end) part(first, end - first);
}

void Quantize(ThreadPool& pool, const Tensor& from, const Tensor& to, const Tensor& scales) {
  const std::span<const float> values(from.f32(), from.size());
  ParallelRanges(pool, scales.size(), kElementGrain / kQuantBlock, [&](int64_t begin, int64_t end) {
    QuantizeBlocks(to.dtype(), values, begin, end, to.bytes(), scales.f32());
  });
  QuantizeScales(to.dtype(), to.size(), {scales.f32(), static_cast<size_t>(scales.size())}, to.bytes());
}

}  // namespace ftune::cpu
#endif
