#include "base/block_quant.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/dynamic_map.h"
#include "base/torch_mean.h"

namespace ftune {
namespace {

constexpr float kSmallestScale = 1e-38f;  // below it, bitsandbytes does not divide

// bitsandbytes' get_4bit_type. NF4: quantiles of N(0, 1). FP4: multiples of 1/12 and 1/192.
constexpr std::array<float, 16> kNf4Values = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};
constexpr std::array<float, 16> kFp4Values = {
    0.0f, 0.0625f / 12,  8.0f / 12,  1.0f,  4.0f / 12,  6.0f / 12,  2.0f / 12,  3.0f / 12,
    0.0f, -0.0625f / 12, -8.0f / 12, -1.0f, -4.0f / 12, -6.0f / 12, -2.0f / 12, -3.0f / 12,
};

bool IsFourBit(DType dtype) { return dtype != DType::kInt8; }

// The codes in order of their values, and the borders between neighbours.
struct FourBitCoder {
  std::array<uint8_t, 16> order;
  std::array<float, 15> borders;

  uint8_t Code(float value) const {
    int rank = 0;
    for (const float border : borders) rank += value > border ? 1 : 0;
    return order[rank];
  }
};

FourBitCoder MakeCoder(DType dtype) {
  const std::array<float, 16>& values = FourBitValues(dtype);
  FourBitCoder coder;
  for (size_t i = 0; i < 16; ++i) coder.order[i] = static_cast<uint8_t>(i);
  std::stable_sort(coder.order.begin(), coder.order.end(),
                   [&](uint8_t a, uint8_t b) { return values[a] < values[b]; });
  for (size_t i = 0; i < 15; ++i) {
    coder.borders[i] = (values[coder.order[i]] + values[coder.order[i + 1]]) / 2.0f;
  }
  return coder;
}

const FourBitCoder& CoderOf(DType dtype) {
  static const FourBitCoder nf4 = MakeCoder(DType::kNF4);
  static const FourBitCoder fp4 = MakeCoder(DType::kFP4);
  return dtype == DType::kNF4 ? nf4 : fp4;
}

float LargestMagnitude(std::span<const float> values) {
  float largest = 0.0f;
  bool finite = true;
  for (const float value : values) {
    finite = finite && std::isfinite(value);
    largest = std::max(largest, std::fabs(value));
  }
  return finite ? largest : NAN;
}

// → the block's scale.
float QuantizeFourBits(std::span<const float> values, const FourBitCoder& coder, std::byte* codes) {
  const bool partial = static_cast<int64_t>(values.size()) < kQuantBlock;
  float scale = LargestMagnitude(values);
  const float divisor = std::max(scale, kSmallestScale);
  if (partial && !std::isnan(scale)) scale = divisor;
  std::array<float, kQuantBlock> scaled{};  // zeros fill a partial block up
  const float factor = 1.0f / divisor;
  for (size_t i = 0; i < values.size(); ++i) {
    const float value = partial ? values[i] / divisor : values[i] * factor;
    scaled[i] = std::clamp(value, -1.0f, 1.0f);
  }
  const size_t pairs = (values.size() + 1) / 2;
  std::memset(codes, 0, kQuantBlock / 2);
  for (size_t i = 0; i < pairs; ++i) {
    codes[i] = static_cast<std::byte>(coder.Code(scaled[2 * i]) << 4 | coder.Code(scaled[2 * i + 1]));
  }
  return scale;
}

template <class T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

void DequantizeBlock(DType dtype, const std::byte* from, const BlockQuantLayout& layout, int64_t block,
                     float* values) {
  float scale;
  BlockScales(dtype, from, layout, block, 1, &scale);
  if (IsFourBit(dtype)) {
    const std::byte* codes = from + block * kQuantBlock / 2;
    const std::array<float, 16>& table = FourBitValues(dtype);
    for (int64_t i = 0; i < kQuantBlock / 2; ++i) {
      values[2 * i] = table[static_cast<uint8_t>(codes[i]) >> 4] * scale;
      values[2 * i + 1] = table[static_cast<uint8_t>(codes[i]) & 15] * scale;
    }
  } else {
    const auto* codes = reinterpret_cast<const uint8_t*>(from + block * kQuantBlock);
    DequantizeBlockwise(codes, &scale, kQuantBlock, DynamicMap::Signed(), {values, kQuantBlock});
  }
}

}  // namespace

BlockQuantLayout::BlockQuantLayout(DType dtype, int64_t count)
    : blocks((count + kQuantBlock - 1) / kQuantBlock) {
  constexpr int64_t kFloat = sizeof(float);
  if (IsFourBit(dtype)) {
    scales = blocks * (kQuantBlock / 2);
    outer = scales + (blocks + kFloat - 1) / kFloat * kFloat;
    mean = outer + (blocks + kQuantScaleBlock - 1) / kQuantScaleBlock * kFloat;
    bytes = mean + kFloat;
  } else {
    scales = blocks * kQuantBlock;
    outer = mean = bytes = scales + blocks * kFloat;
  }
}

const std::array<float, 16>& FourBitValues(DType dtype) {
  return dtype == DType::kNF4 ? kNf4Values : kFp4Values;
}

void QuantizeBlocks(DType dtype, std::span<const float> values, int64_t begin, int64_t end, std::byte* to,
                    float* scales) {
  const auto count = static_cast<int64_t>(values.size());
  for (int64_t block = begin; block < end; ++block) {
    const int64_t first = block * kQuantBlock;
    const auto part = values.subspan(first, std::min(kQuantBlock, count - first));
    if (IsFourBit(dtype)) {
      scales[block] = QuantizeFourBits(part, CoderOf(dtype), to + first / 2);
    } else {
      auto* codes = reinterpret_cast<uint8_t*>(to + first);
      std::memset(codes, 0, kQuantBlock);
      QuantizeBlockwise(part, kQuantBlock, DynamicMap::Signed(), codes, &scales[block],
                        CodeSearch::kStepTable);
    }
  }
}

void QuantizeScales(DType dtype, int64_t count, std::span<const float> scales, std::byte* to) {
  const BlockQuantLayout layout(dtype, count);
  if (!IsFourBit(dtype)) {
    std::memcpy(to + layout.scales, scales.data(), scales.size_bytes());
    return;
  }
  const float mean = TorchMean(scales);
  std::vector<float> centred(scales.size());
  for (size_t i = 0; i < scales.size(); ++i) centred[i] = scales[i] - mean;
  std::vector<float> outer((scales.size() + kQuantScaleBlock - 1) / kQuantScaleBlock);
  std::memset(to + layout.scales, 0, layout.outer - layout.scales);
  QuantizeBlockwise(centred, kQuantScaleBlock, DynamicMap::Signed(),
                    reinterpret_cast<uint8_t*>(to + layout.scales), outer.data(), CodeSearch::kStepTable);
  std::memcpy(to + layout.outer, outer.data(), outer.size() * sizeof(float));
  std::memcpy(to + layout.mean, &mean, sizeof(float));
}

void BlockScales(DType dtype, const std::byte* from, const BlockQuantLayout& layout, int64_t first,
                 int64_t count, float* scales) {
  constexpr int64_t kFloat = sizeof(float);
  if (!IsFourBit(dtype)) {
    std::memcpy(scales, from + layout.scales + first * kFloat, count * kFloat);
    return;
  }
  const std::array<float, DynamicMap::kSize>& map = DynamicMap::Signed().values();
  const auto mean = Load<float>(from + layout.mean);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t block = first + i;
    const auto outer = Load<float>(from + layout.outer + block / kQuantScaleBlock * kFloat);
    scales[i] = map[Load<uint8_t>(from + layout.scales + block)] * outer + mean;
  }
}

void DequantizeRange(DType dtype, const std::byte* from, int64_t size, int64_t first, int64_t count,
                     float* values) {
  const BlockQuantLayout layout(dtype, size);
  std::array<float, kQuantBlock> block_values;
  for (int64_t done = 0; done < count;) {
    const int64_t place = first + done;
    const int64_t within = place % kQuantBlock;
    const int64_t take = std::min(kQuantBlock - within, count - done);
    DequantizeBlock(dtype, from, layout, place / kQuantBlock, block_values.data());
    std::copy_n(block_values.begin() + within, take, values + done);
    done += take;
  }
}

}  // namespace ftune
