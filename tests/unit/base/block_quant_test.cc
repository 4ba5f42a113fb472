#include "base/block_quant.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/random.h"
#include "base/torch_mean.h"
#include "tests/unit/base/quantized_golden.h"

namespace ftune {
namespace {

constexpr DType kTypes[] = {DType::kNF4, DType::kFP4, DType::kInt8};

std::vector<std::byte> Quantize(DType dtype, const std::vector<float>& values, int64_t blocks_at_once = 7) {
  const auto count = static_cast<int64_t>(values.size());
  const BlockQuantLayout layout(dtype, count);
  CHECK(BytesFor(dtype, count) == layout.bytes);
  std::vector<std::byte> bytes(layout.bytes, std::byte{0xee});
  std::vector<float> scales(layout.blocks);
  for (int64_t begin = 0; begin < layout.blocks; begin += blocks_at_once) {
    QuantizeBlocks(dtype, values, begin, std::min(begin + blocks_at_once, layout.blocks), bytes.data(),
                   scales.data());
  }
  QuantizeScales(dtype, count, scales, bytes.data());
  return bytes;
}

std::vector<float> Dequantize(DType dtype, const std::vector<std::byte>& bytes, int64_t size, int64_t first,
                              int64_t count) {
  std::vector<float> values(count);
  DequantizeRange(dtype, bytes.data(), size, first, count, values.data());
  return values;
}

std::vector<float> Dequantize(DType dtype, const std::vector<std::byte>& bytes, int64_t size) {
  return Dequantize(dtype, bytes, size, 0, size);
}

std::vector<uint8_t> Part(const std::vector<std::byte>& bytes, int64_t begin, int64_t count) {
  std::vector<uint8_t> part(count);
  std::memcpy(part.data(), bytes.data() + begin, count);
  return part;
}

std::vector<float> Random(int64_t count, uint64_t seed) {
  RandomSequence random(seed, 1);
  std::vector<float> values(count);
  for (float& value : values) value = random.Uniform() - 0.5f;
  return values;
}

TEST_CASE("NF4 and FP4 with double quantisation are bitsandbytes' to the bit") {
  const QuantizedGolden golden;
  for (const std::string& name : golden.Cases()) {
    const std::vector<float> input = golden.Floats(name + ".input");
    const auto count = static_cast<int64_t>(input.size());
    for (const DType dtype : {DType::kNF4, DType::kFP4}) {
      const std::string prefix = StrCat(name, ".", Name(dtype));
      CAPTURE(prefix);
      const std::vector<std::byte> bytes = Quantize(dtype, input);
      const BlockQuantLayout layout(dtype, count);
      CHECK(Part(bytes, 0, (count + 1) / 2) == golden.Bytes(prefix + ".packed"));
      CHECK(Part(bytes, layout.scales, layout.blocks) == golden.Bytes(prefix + ".absmax"));
      CHECK(Part(bytes, layout.outer, layout.mean - layout.outer) == golden.Bytes(prefix + ".outer"));
      CHECK(Part(bytes, layout.mean, 4) == golden.Bytes(prefix + ".offset"));
      if (!golden.Has(prefix + ".values")) continue;
      CHECK(BitDifference(Dequantize(dtype, bytes, count), golden.Floats(prefix + ".values")) == "");
    }
  }
}

TEST_CASE("blockwise int8 is bitsandbytes' to the bit") {
  const QuantizedGolden golden;
  for (const std::string& name : golden.Cases()) {
    if (!golden.Has(name + ".int8.codes")) continue;
    CAPTURE(name);
    const std::vector<float> input = golden.Floats(name + ".input");
    const auto count = static_cast<int64_t>(input.size());
    const std::vector<std::byte> bytes = Quantize(DType::kInt8, input);
    CHECK(Part(bytes, 0, count) == golden.Bytes(name + ".int8.codes"));
    CHECK(BitDifference(Dequantize(DType::kInt8, bytes, count), golden.Floats(name + ".int8.values")) == "");
  }
}

TEST_CASE("means are torch's to the bit") {
  const QuantizedGolden golden;
  std::vector<float> values(32000);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i * 2654435761u % (1u << 24)) / 0x1p24f + 0.5f;
  }
  std::vector<float> means;
  const std::vector<uint8_t> bytes = golden.Bytes("mean.lengths");
  for (size_t i = 0; i < bytes.size(); i += 4) {
    int32_t length;
    std::memcpy(&length, &bytes[i], 4);
    means.push_back(TorchMean(std::span(values).first(length)));
  }
  CHECK(BitDifference(means, golden.Floats("mean.values")) == "");
  CHECK(TorchMean({}) == 0.0f);
}

TEST_CASE("bits a value") {
  const int64_t count = 1 << 20;
  CHECK(BytesFor(DType::kNF4, count) * 8.0 / count == doctest::Approx(4.127).epsilon(1e-4));
  CHECK(BytesFor(DType::kFP4, count) == BytesFor(DType::kNF4, count));
  CHECK(BytesFor(DType::kInt8, count) * 8.0 / count == doctest::Approx(8.5));
  CHECK(BytesFor(DType::kNF4, 1) == 32 + 4 + 4 + 4);
  CHECK(BytesFor(DType::kInt8, 65) == 2 * 68);
}

TEST_CASE("any range of a tensor reads as the whole does; work in pieces gives the same bytes") {
  const int64_t count = 777;
  const std::vector<float> input = Random(count, 3);
  for (const DType dtype : kTypes) {
    const std::vector<std::byte> bytes = Quantize(dtype, input, 1);
    CHECK(bytes == Quantize(dtype, input, 1000));
    const std::vector<float> all = Dequantize(dtype, bytes, count);
    for (int64_t first = 0; first < count; first += 37) {
      for (const int64_t length : {int64_t{0}, int64_t{1}, int64_t{64}, int64_t{130}, count - first}) {
        if (first + length > count) continue;
        const std::vector<float> want(all.begin() + first, all.begin() + first + length);
        CHECK(BitDifference(Dequantize(dtype, bytes, count, first, length), want) == "");
      }
    }
  }
}

TEST_CASE("what is quantised comes back near to what it was") {
  const int64_t count = 4096;
  const std::vector<float> input = Random(count, 5);
  const auto worst = [&](DType dtype) {
    const std::vector<float> got = Dequantize(dtype, Quantize(dtype, input), count);
    float error = 0;
    for (int64_t i = 0; i < count; ++i) error = std::max(error, std::fabs(got[i] - input[i]));
    return error;
  };
  CHECK(worst(DType::kNF4) < 0.09f);  // half the widest gap, of a scale of 0.5
  CHECK(worst(DType::kFP4) < 0.095f);
  CHECK(worst(DType::kInt8) < 0.005f);
}

TEST_CASE("a value that is not finite makes its block NaN at least") {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> input = Random(256, 7);
    input[70] = bad;
    for (const DType dtype : kTypes) {
      const std::vector<float> got = Dequantize(dtype, Quantize(dtype, input), 256);
      for (int i = 64; i < 128; ++i) CHECK(std::isnan(got[i]));
    }
  }
}

}  // namespace
}  // namespace ftune
