#include "base/convert.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/unit/base/temp_folder.h"

namespace ftune {
namespace {

// From the definition (IEEE 754-2019, 3.4), in double.
double HalfValue(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int mantissa = half & 1023;
  const double sign = half & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

float FromBits(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t ToBits(float value) { return std::bit_cast<uint32_t>(value); }

// Nearest of all finite halves and infinity (which stands where 65536 would), ties to even; by search.
uint16_t NearestHalf(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(static_cast<double>(value));
  uint16_t best = 0;
  double best_distance = INFINITY;
  for (uint32_t h = 0; h <= 0x7c00; ++h) {
    const double candidate = h == 0x7c00 ? 65536.0 : HalfValue(static_cast<uint16_t>(h));
    const double distance = std::abs(candidate - magnitude);
    if (distance < best_distance || (distance == best_distance && h % 2 == 0)) {
      best = static_cast<uint16_t>(h);
      best_distance = distance;
    }
  }
  return sign | best;
}

TEST_CASE("every fp16 converts exactly and back") {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const uint16_t half = static_cast<uint16_t>(h);
    const float value = HalfToFloat(half);
    const double expected = HalfValue(half);
    if (std::isnan(expected)) {
      REQUIRE(std::isnan(value));
      REQUIRE(std::isnan(HalfToFloat(FloatToHalf(value))));
      REQUIRE((FloatToHalf(value) & 0x8000) == (half & 0x8000));
      continue;
    }
    REQUIRE(static_cast<double>(value) == expected);
    REQUIRE(std::signbit(value) == (half >= 0x8000));
    REQUIRE(FloatToHalf(value) == half);
  }
}

TEST_CASE("fp16 rounds to nearest even") {
  for (uint32_t h = 0; h < 0x7c00; h += 37) {
    const float low = HalfToFloat(static_cast<uint16_t>(h));
    const float high = h == 0x7bff ? 65536.0f : HalfToFloat(static_cast<uint16_t>(h + 1));
    const float middle = low + (high - low) / 2;
    REQUIRE(FloatToHalf(middle) == (h % 2 == 0 ? h : h + 1));
    REQUIRE(FloatToHalf(std::nextafter(middle, 0.0f)) == h);
    REQUIRE(FloatToHalf(std::nextafter(middle, INFINITY)) == h + 1);
    REQUIRE(FloatToHalf(-middle) == (0x8000 | (h % 2 == 0 ? h : h + 1)));
  }
  RandomSequence random(1, 2);
  for (int i = 0; i < 2000; ++i) {
    const float value = FromBits((random.Next() & 0x807fffff) | (96 + random.Below(50)) << 23);
    REQUIRE(FloatToHalf(value) == NearestHalf(value));
  }
}

TEST_CASE("fp16 overflows to infinity and keeps NaN") {
  CHECK(FloatToHalf(65504.0f) == 0x7bff);
  CHECK(FloatToHalf(65519.996f) == 0x7bff);
  CHECK(FloatToHalf(65520.0f) == 0x7c00);
  CHECK(FloatToHalf(-1e30f) == 0xfc00);
  CHECK(FloatToHalf(std::numeric_limits<float>::max()) == 0x7c00);
  CHECK(FloatToHalf(INFINITY) == 0x7c00);
  CHECK(std::isnan(HalfToFloat(FloatToHalf(FromBits(0x7f800001)))));  // mantissa that 10 bits do not hold
  CHECK(FloatToHalf(FromBits(1)) == 0);                               // fp32's smallest subnormal
  CHECK(FloatToHalf(FromBits(0x80000001)) == 0x8000);
}

TEST_CASE("bf16 converts exactly, rounds to nearest even and keeps NaN") {
  for (uint32_t b = 0; b < 0x10000; ++b) {
    const float value = Bf16ToFloat(static_cast<uint16_t>(b));
    REQUIRE(ToBits(value) == b << 16);
    if (!std::isnan(value)) REQUIRE(FloatToBf16(value) == b);
    if (std::isnan(value)) REQUIRE(std::isnan(Bf16ToFloat(FloatToBf16(value))));
  }
  CHECK(FloatToBf16(FromBits(0x3f808000)) == 0x3f80);  // tie, to even
  CHECK(FloatToBf16(FromBits(0x3f818000)) == 0x3f82);
  CHECK(FloatToBf16(FromBits(0x3f808001)) == 0x3f81);
  CHECK(FloatToBf16(FromBits(0x3f807fff)) == 0x3f80);
  CHECK(FloatToBf16(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(FloatToBf16(FromBits(0xff800001)) == 0xffc0);
  CHECK(FloatToBf16(FromBits(0x00008001)) == 1);  // subnormal
}

TEST_CASE("plain types convert from any alignment, for any count") {
  for (const int64_t count : {0, 1, 7, 33}) {
    std::string f16 = "x", bf16 = "x", f64 = "x", f32 = "x";
    for (int64_t i = 0; i < count; ++i) {
      const float value = static_cast<float>(i) * 0.25f - 3.0f;
      f16 += Bytes(FloatToHalf(value));
      bf16 += Bytes(FloatToBf16(value));
      f64 += Bytes<double>(value);
      f32 += Bytes(value);
    }
    const auto convert = [&](DType dtype, const std::string& bytes) {
      std::vector<float> values(count + 1, 99.0f);
      ConvertToF32(dtype, reinterpret_cast<const std::byte*>(bytes.data() + 1), count, values.data());
      CHECK(values.back() == 99.0f);
      for (int64_t i = 0; i < count; ++i) CHECK(values[i] == static_cast<float>(i) * 0.25f - 3.0f);
    };
    convert(DType::kF16, f16);
    convert(DType::kBF16, bf16);
    convert(DType::kF64, f64);
    convert(DType::kF32, f32);
    std::vector<float> values(count);
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(i) * 0.25f - 3.0f;
    const auto back = [&](DType dtype, const std::string& expected) {
      std::string bytes(expected.size(), 'x');
      ConvertFromF32(dtype, values.data(), count, reinterpret_cast<std::byte*>(bytes.data() + 1));
      CHECK(bytes == expected);
    };
    back(DType::kF32, f32);
    back(DType::kF16, f16);
    back(DType::kBF16, bf16);
  }
}

TEST_CASE("which types can be written") {
  CHECK(IsConversionTarget(DType::kF32));
  CHECK(IsConversionTarget(DType::kBF16));
  CHECK_FALSE(IsConversionTarget(DType::kQ8_0));
  CHECK_FALSE(IsConversionTarget(DType::kF64));
}

// Expected values written out from the layout: byte j holds values j (low) and j + 16 (high).
TEST_CASE("quantised blocks") {
  std::string nibbles;
  for (int j = 0; j < 16; ++j) nibbles += static_cast<char>(j | (15 - j) << 4);
  const std::string scale = Bytes(FloatToHalf(0.5f));
  const std::string other_scale = Bytes(FloatToHalf(-2.0f));
  std::vector<float> out(64);
  const auto run = [&](DType dtype, const std::string& bytes) {
    ConvertToF32(dtype, reinterpret_cast<const std::byte*>(bytes.data()), 64, out.data());
  };

  run(DType::kQ4_0, scale + nibbles + other_scale + nibbles);
  for (int j = 0; j < 16; ++j) {
    CHECK(out[j] == 0.5f * static_cast<float>(j - 8));
    CHECK(out[16 + j] == 0.5f * static_cast<float>(7 - j));
    CHECK(out[32 + j] == -2.0f * static_cast<float>(j - 8));
  }
  const std::string minimum = Bytes(FloatToHalf(3.0f));
  run(DType::kQ4_1, scale + minimum + nibbles + other_scale + minimum + nibbles);
  for (int j = 0; j < 16; ++j) {
    CHECK(out[j] == 0.5f * static_cast<float>(j) + 3.0f);
    CHECK(out[16 + j] == 0.5f * static_cast<float>(15 - j) + 3.0f);
    CHECK(out[48 + j] == -2.0f * static_cast<float>(15 - j) + 3.0f);
  }
  std::string bytes;
  for (int j = 0; j < 32; ++j) bytes += static_cast<char>(j * 8 - 128);
  run(DType::kQ8_0, scale + bytes + other_scale + bytes);
  for (int j = 0; j < 32; ++j) {
    CHECK(out[j] == 0.5f * static_cast<float>(j * 8 - 128));
    CHECK(out[32 + j] == -2.0f * static_cast<float>(j * 8 - 128));
  }
}

}  // namespace
}  // namespace ftune
