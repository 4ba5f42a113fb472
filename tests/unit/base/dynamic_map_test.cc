#include "base/dynamic_map.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "tests/unit/base/quantized_golden.h"

namespace ftune {
namespace {

struct Quantized {
  std::vector<uint8_t> codes;
  std::vector<float> absmax;
  std::vector<float> values;
};

Quantized Quantize(const std::vector<float>& values, int64_t block, const DynamicMap& map,
                   CodeSearch search) {
  const auto count = static_cast<int64_t>(values.size());
  Quantized q{std::vector<uint8_t>(count), std::vector<float>((count + block - 1) / block),
              std::vector<float>(count)};
  QuantizeBlockwise(values, block, map, q.codes.data(), q.absmax.data(), search);
  DequantizeBlockwise(q.codes.data(), q.absmax.data(), block, map, q.values);
  return q;
}

void CheckCase(const QuantizedGolden& golden, const std::string& prefix, const std::vector<float>& input,
               int64_t block, const DynamicMap& map) {
  CAPTURE(prefix);
  const Quantized stepped = Quantize(input, block, map, CodeSearch::kStepTable);
  CHECK(stepped.codes == golden.Bytes(prefix + ".codes"));
  CHECK(BitDifference(stepped.absmax, golden.Floats(prefix + ".absmax")) == "");
  CHECK(BitDifference(stepped.values, golden.Floats(prefix + ".values")) == "");
  Quantized nearest = Quantize(input, block, map, CodeSearch::kNearest);
  CHECK(BitDifference(nearest.absmax, golden.Floats(prefix + ".absmax")) == "");
  const std::vector<uint8_t> searched = golden.Bytes(prefix + ".searched");
  nearest.codes.resize(searched.size());
  CHECK(nearest.codes == searched);
}

TEST_CASE("the dynamic maps are bitsandbytes'") {
  const QuantizedGolden golden;
  const auto values = [](const DynamicMap& map) {
    return std::vector<float>(map.values().begin(), map.values().end());
  };
  CHECK(BitDifference(values(DynamicMap::Signed()), golden.Floats("map.signed")) == "");
  CHECK(BitDifference(values(DynamicMap::Unsigned()), golden.Floats("map.unsigned")) == "");
}

TEST_CASE("blockwise codes are bitsandbytes', at and beside every midpoint too") {
  const QuantizedGolden golden;
  for (const auto& [name, map] : {std::pair("ties.signed", &DynamicMap::Signed()),
                                  std::pair("ties.unsigned", &DynamicMap::Unsigned())}) {
    const std::vector<float> input = golden.Floats(StrCat(name, ".input"));
    CheckCase(golden, name, input, static_cast<int64_t>(input.size()), *map);
  }
  for (const std::string& name : golden.Cases()) {
    if (!golden.Has(name + ".int8.codes")) continue;
    std::vector<float> input = golden.Floats(name + ".input");
    CheckCase(golden, name + ".int8", input, 64, DynamicMap::Signed());
    for (float& value : input) value = std::fabs(value);
    CheckCase(golden, name + ".unsigned", input, 100, DynamicMap::Unsigned());
  }
}

TEST_CASE("the nearest code is the nearest value's") {
  const DynamicMap& map = DynamicMap::Signed();
  for (int i = -5000; i <= 5000; ++i) {
    const float value = static_cast<float>(i) * 2.03e-4f;
    const auto distance = [&](int code) {
      return std::abs(static_cast<double>(map.values()[code]) - std::clamp(value, -1.0f, 1.0f));
    };
    const int code = map.Code(value, CodeSearch::kNearest);
    for (int other = 0; other < DynamicMap::kSize; ++other) REQUIRE(distance(code) <= distance(other) + 1e-9);
  }
}

TEST_CASE("zero blocks come back as zeros, blocks with what is not finite as NaN") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> input = {0, 0, 0, 1, NAN, 2, kInf, 1, 0, -kInf, 0, 0, 4, -4};
  for (const CodeSearch search : {CodeSearch::kNearest, CodeSearch::kStepTable}) {
    const Quantized q = Quantize(input, 3, DynamicMap::Signed(), search);
    for (int i = 0; i < 3; ++i) CHECK(q.values[i] == 0.0f);
    for (int i = 3; i < 12; ++i) CHECK(std::isnan(q.values[i]));
    CHECK(q.values[12] == 4.0f);
    CHECK(q.values[13] == doctest::Approx(-4.0).epsilon(0.01));
  }
  QuantizeBlockwise({}, 64, DynamicMap::Signed(), nullptr, nullptr);
}

}  // namespace
}  // namespace ftune
