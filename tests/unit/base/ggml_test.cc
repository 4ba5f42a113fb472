// ggml's blocks, beside what the gguf package says of them (tests/golden/gguf_quants.py).
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/convert.h"
#include "base/ggml_layout.h"
#include "base/ggml_quantize.h"
#include "base/ggml_types.h"
#include "base/random.h"
#include "base/safetensors.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr DType kRead[] = {DType::kQ4_0, DType::kQ4_1,   DType::kQ5_0, DType::kQ5_1,
                           DType::kQ8_0, DType::kIQ4_NL, DType::kQ2_K, DType::kQ3_K,
                           DType::kQ4_K, DType::kQ5_K,   DType::kQ6_K};

const SafetensorsFile& Golden() {
  static const SafetensorsFile file =
      *SafetensorsFile::Open(std::string(FTUNE_SOURCE_DIR) + "/tests/golden/quants/gguf.safetensors");
  return file;
}

std::span<const std::byte> Bytes(DType dtype, const char* part) {
  const SafetensorsEntry* entry = Golden().Find(StrCat(Name(dtype), part));
  REQUIRE(entry != nullptr);
  return entry->bytes;
}

std::vector<float> Input() {
  const auto bytes = Golden().Find("input")->bytes;
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST_CASE("ggml: every quantised type reads as the gguf package reads it, to the bit") {
  for (const DType type : kRead) {
    CAPTURE(Name(type));
    const auto blocks = Bytes(type, ".blocks"), expected = Bytes(type, ".values");
    const int64_t count = static_cast<int64_t>(expected.size()) / 4;
    REQUIRE(static_cast<int64_t>(blocks.size()) == BytesFor(type, count));
    REQUIRE(count >= 14 * BlockSize(type));
    std::vector<std::byte> odd(blocks.size() + 1);  // any alignment
    std::copy(blocks.begin(), blocks.end(), odd.begin() + 1);
    std::vector<float> values(count);
    ConvertToF32(type, odd.data() + 1, count, values.data());
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; ++i) wrong += std::memcmp(&values[i], expected.data() + 4 * i, 4) != 0;
    CHECK(wrong == 0);
  }
}

TEST_CASE("ggml: q8_0, q4_0, bf16 and f16 are written as the gguf package writes them") {
  const std::vector<float> input = Input();
  for (const DType type : {DType::kQ8_0, DType::kQ4_0, DType::kBF16, DType::kF16}) {
    CAPTURE(Name(type));
    const auto expected = Bytes(type, ".quantized");
    std::vector<std::byte> made(BytesFor(type, static_cast<int64_t>(input.size())));
    if (IsQuantized(type)) {
      REQUIRE(Quantize(type, input.data(), static_cast<int64_t>(input.size()), made.data()));
    } else {
      ConvertFromF32(type, input.data(), static_cast<int64_t>(input.size()), made.data());
    }
    CHECK(std::equal(made.begin(), made.end(), expected.begin(), expected.end()));
  }
}

// The package has no quantiser for Q4_K. ggml's own, quantize_row_q4_K_ref (version 0.13.1), makes bytes with
// this FNV-1a hash of the first 1024 numbers of the input.
TEST_CASE("ggml: q4_k is written as ggml writes it") {
  const std::vector<float> input = Input();
  std::vector<std::byte> made(BytesFor(DType::kQ4_K, 1024));
  REQUIRE(Quantize(DType::kQ4_K, input.data(), 1024, made.data()));
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : made) hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
  CHECK(hash == 0xb01a864105945c91);
}

TEST_CASE("ggml: what cannot be quantised is said") {
  CHECK(IsQuantizationTarget(DType::kQ8_0));
  CHECK(IsQuantizationTarget(DType::kQ4_K));
  CHECK_FALSE(IsQuantizationTarget(DType::kQ6_K));
  CHECK_FALSE(IsQuantizationTarget(DType::kF16));
  for (const DType type : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_K}) {
    CAPTURE(Name(type));
    std::vector<std::byte> made(BytesFor(type, 512));
    const auto with = [&](float value) {
      std::vector<float> x(512, 0.25f);
      x[300] = value;
      return Quantize(type, x.data(), 512, made.data());
    };
    CHECK(with(1.0f));
    CHECK(with(5e5f));
    CHECK(with(1e-44f));
    CHECK_FALSE(with(2e8f));  // its scale is no fp16
    CHECK_FALSE(with(-2e8f));
    CHECK_FALSE(with(std::numeric_limits<float>::max()));
    CHECK_FALSE(with(std::numeric_limits<float>::infinity()));
    CHECK_FALSE(with(std::numeric_limits<float>::quiet_NaN()));
  }
  for (const DType type : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_K}) {  // nothing but tiny numbers, or zeros
    for (const float tiny : {0.0f, 1e-44f, -1e-40f, 1e-38f}) {
      CAPTURE(Name(type));
      CAPTURE(tiny);
      std::vector<float> x(256, tiny), back(256, 1.0f);
      std::vector<std::byte> made(BytesFor(type, 256));
      REQUIRE(Quantize(type, x.data(), 256, made.data()));
      ConvertToF32(type, made.data(), 256, back.data());
      for (const float value : back) CHECK(std::abs(value) <= 1e-6f);
    }
  }
}

// Blocks like rows of weights: Gaussian, some with a mean, some with outliers.
std::vector<float> WeightBlock(uint64_t seed) {
  RandomSequence random(seed, 3);
  std::vector<float> x(256);
  for (float& v : x) {
    const float gaussian =
        std::sqrt(-2 * std::log(1 - random.Uniform())) * std::cos(6.2831853f * random.Uniform());
    v = 0.02f * gaussian + (seed % 3 == 1 ? 0.01f : 0.0f);
    if (seed % 3 == 2 && random.Below(64) == 0) v *= 5;
  }
  return x;
}

// What the search makes least: the larger of a group's values weigh more.
double Weight(const std::vector<float>& x, int i) {
  double squares = 0;
  for (int k = i / 32 * 32; k < i / 32 * 32 + 32; ++k) squares += x[k] * x[k];
  return std::sqrt(squares / 32) + std::abs(x[i]);
}

struct Error {
  double plain = 0, weighted = 0;
  void Add(double difference, double weight) {
    plain += difference * difference;
    weighted += weight * difference * difference;
  }
};

Error ErrorOf(const std::vector<float>& x, const ggml::Q4_K& block) {
  std::vector<float> back(256);
  ConvertToF32(DType::kQ4_K, reinterpret_cast<const std::byte*>(&block), 256, back.data());
  Error error;
  for (int i = 0; i < 256; ++i) error.Add(back[i] - x[i], Weight(x, i));
  return error;
}

// Each group's own range cut into 15 steps, rounded to the block's six bits.
Error NaiveError(const std::vector<float>& x) {
  float scales[8], minima[8];
  for (int g = 0; g < 8; ++g) {
    const auto [low, high] = std::minmax_element(x.begin() + 32 * g, x.begin() + 32 * g + 32);
    minima[g] = -std::min(*low, 0.0f);
    scales[g] = (*high + minima[g]) / 15;
  }
  const float d = HalfToFloat(FloatToHalf(*std::max_element(scales, scales + 8) / 63));
  const float dmin = HalfToFloat(FloatToHalf(*std::max_element(minima, minima + 8) / 63));
  Error error;
  for (int i = 0; i < 256; ++i) {
    const float scale = d * std::min(63.0f, std::round(scales[i / 32] / d));
    const float minimum = dmin * std::min(63.0f, std::round(minima[i / 32] / dmin));
    const float code = std::clamp(std::round((x[i] + minimum) / scale), 0.0f, 15.0f);
    error.Add(scale * code - minimum - x[i], Weight(x, i));
  }
  return error;
}

// The least weighted error, over all pairs of six-bit scale and minimum for each group, in units of the
// block's.
double LeastError(const std::vector<float>& x, const ggml::Q4_K& block) {
  const float d = block.scale.value(), dmin = block.minimum.value();
  double weights[256];
  for (int i = 0; i < 256; ++i) weights[i] = Weight(x, i);
  double total = 0;
  for (int g = 0; g < 8; ++g) {
    double best = std::numeric_limits<double>::infinity();
    for (int pair = 0; pair < 64 * 64; ++pair) {
      const float scale = d * static_cast<float>(pair / 64), minimum = dmin * static_cast<float>(pair % 64);
      Error error;
      for (int i = 32 * g; i < 32 * g + 32 && error.weighted < best; ++i) {
        const float steps = (x[i] + minimum) / scale;  // not finite where the scale is 0
        const float code = steps > 0 ? std::nearbyint(std::min(steps, 15.0f)) : 0.0f;
        error.Add(scale * code - minimum - x[i], weights[i]);
      }
      best = std::min(best, error.weighted);
    }
    total += best;
  }
  return total;
}

TEST_CASE("ggml: q4_k's error is far below a naive one and near the least that there is") {
  Error ours, naive;
  double least = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const std::vector<float> x = WeightBlock(seed);
    ggml::Q4_K block;
    REQUIRE(Quantize(DType::kQ4_K, x.data(), 256, reinterpret_cast<std::byte*>(&block)));
    ours.plain += ErrorOf(x, block).plain;
    ours.weighted += ErrorOf(x, block).weighted;
    naive.plain += NaiveError(x).plain;
    naive.weighted += NaiveError(x).weighted;
    least += LeastError(x, block);
  }
  CAPTURE(ours.weighted / least);
  CAPTURE(ours.plain / naive.plain);
  CHECK(ours.plain < 0.85 * naive.plain);
  CHECK(ours.weighted < 0.85 * naive.weighted);
  CHECK(ours.weighted <= 1.06 * least);  // what rounding a fitted line to six bits costs
}

TEST_CASE("ggml: names and numbers of types") {
  CHECK(GgmlTypeName(12) == "Q4_K");
  CHECK(GgmlTypeName(30) == "BF16");
  CHECK(GgmlTypeName(39) == "MXFP4");
  CHECK(GgmlTypeName(4) == "type 4");
  CHECK(GgmlTypeName(77) == "type 77");
  CHECK(DTypeOfGgml(20) == DType::kIQ4_NL);
  CHECK_FALSE(DTypeOfGgml(39).has_value());
  CHECK_FALSE(DTypeOfGgml(77).has_value());
  CHECK_FALSE(GgmlTypeOf(DType::kBool).has_value());
  for (const DType type : kRead) {
    REQUIRE(GgmlTypeOf(type).has_value());
    CHECK(DTypeOfGgml(*GgmlTypeOf(type)) == type);
    CHECK(Lower(GgmlTypeName(*GgmlTypeOf(type))) == Name(type));
  }
  CHECK(ReadableGgmlTypes().starts_with("F32, F16, Q4_0, "));
  CHECK(ReadableGgmlTypes().find("I32") == std::string::npos);
}

}  // namespace
}  // namespace ftune
