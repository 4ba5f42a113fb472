#include "base/convert.h"

#include <bit>
#include <cassert>
#include <cstdlib>
#include <cstring>

#include "base/ggml_blocks.h"

namespace ftune {
namespace {

template <class T>
inline T Load(const std::byte* source) {
  T value;
  std::memcpy(&value, source, sizeof(T));
  return value;
}

// The loops below select between results instead of branching, so that compilers vectorise them. No fp32
// subnormal decides a result, so that results do not depend on the flush-to-zero modes of the calling thread.
inline float HalfToFloatInline(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t magnitude = uint32_t{half & 0x7fffu} << 13;
  const uint32_t normal = magnitude + (uint32_t{127 - 15} << 23);
  const uint32_t special = magnitude + (uint32_t{255 - 31} << 23);  // infinity, NaN
  // A subnormal is its mantissa in units of 2^-24: put it below 2^-14's leading one and take that away.
  const float shifted = std::bit_cast<float>(magnitude + (uint32_t{127 - 14} << 23)) - 0x1p-14f;
  const uint32_t subnormal = std::bit_cast<uint32_t>(shifted);
  const uint32_t finite = magnitude < (uint32_t{1} << 23) ? subnormal : normal;
  return std::bit_cast<float>(sign | (magnitude >= (uint32_t{31} << 23) ? special : finite));
}

inline uint16_t FloatToHalfInline(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  // Below 2^-14 the unit is 2^-24, which is the last bit of 0.5f: adding 0.5 rounds, to nearest even.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  const uint32_t odd = (magnitude >> 13) & 1u;
  const uint32_t normal = (magnitude - (uint32_t{127 - 15} << 23) + 0xfffu + odd) >> 13;
  const uint32_t finite = magnitude < (uint32_t{127 - 14} << 23) ? subnormal : normal;
  const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  const uint32_t special = magnitude > 0x7f800000u ? nan : 0x7c00u;
  return static_cast<uint16_t>(sign | (magnitude >= (uint32_t{127 + 16} << 23) ? special : finite));
}

inline float Bf16ToFloatInline(uint16_t bf16) { return std::bit_cast<float>(uint32_t{bf16} << 16); }

inline uint16_t FloatToBf16Inline(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x40u;  // made quiet, so that its mantissa cannot round to infinity's
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

template <class T, class Convert>
void ToF32(const std::byte* source, int64_t count, float* destination, Convert convert) {
  for (int64_t i = 0; i < count; ++i) destination[i] = convert(Load<T>(source + i * sizeof(T)));
}

template <class Convert>
void To16Bits(const float* source, int64_t count, std::byte* destination, Convert convert) {
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t value = convert(source[i]);
    std::memcpy(destination + i * 2, &value, 2);
  }
}

}  // namespace

float HalfToFloat(uint16_t half) { return HalfToFloatInline(half); }
uint16_t FloatToHalf(float value) { return FloatToHalfInline(value); }
float Bf16ToFloat(uint16_t bf16) { return Bf16ToFloatInline(bf16); }
uint16_t FloatToBf16(float value) { return FloatToBf16Inline(value); }

void ConvertToF32(DType from, const std::byte* source, int64_t count, float* destination) {
  assert(count % BlockSize(from) == 0);
  switch (from) {
    case DType::kF32:
      if (count > 0) std::memcpy(destination, source, count * sizeof(float));
      return;
    case DType::kF16:
      return ToF32<uint16_t>(source, count, destination, HalfToFloatInline);
    case DType::kBF16:
      return ToF32<uint16_t>(source, count, destination, Bf16ToFloatInline);
    case DType::kF64:
      return ToF32<double>(source, count, destination,
                           [](double value) { return static_cast<float>(value); });
    default:
      break;
  }
  const BlockDecoder decode = FindGgmlDecoder(from);
  if (decode == nullptr) std::abort();  // the caller checked IsFloat
  decode(source, count / BlockSize(from), destination);
}

bool IsConversionTarget(DType to) { return to == DType::kF32 || to == DType::kF16 || to == DType::kBF16; }

void ConvertFromF32(DType to, const float* source, int64_t count, std::byte* destination) {
  switch (to) {
    case DType::kF32:
      if (count > 0) std::memcpy(destination, source, count * sizeof(float));
      return;
    case DType::kF16:
      return To16Bits(source, count, destination, FloatToHalfInline);
    case DType::kBF16:
      return To16Bits(source, count, destination, FloatToBf16Inline);
    default:
      std::abort();  // the caller checked IsConversionTarget
  }
}

}  // namespace ftune
