#include "base/dynamic_map.h"

#include <algorithm>
#include <cmath>

namespace ftune {
namespace {

constexpr int kSteps = 65536;
// Below this, bitsandbytes does not take the reciprocal.
constexpr float kSmallestScale = 1e-38f;

// torch.linspace(0.1, 1, count) in fp32: from both ends to the middle, each product and sum rounded once.
std::vector<float> Boundaries(int count) {
  const float begin = 0.1f, end = 1.0f;
  const float step = (end - begin) / static_cast<float>(count - 1);
  std::vector<float> boundaries(count);
  for (int i = 0; i < count; ++i) {
    boundaries[i] = i < count / 2 ? std::fma(step, static_cast<float>(i), begin)
                                  : std::fma(-step, static_cast<float>(count - 1 - i), end);
  }
  return boundaries;
}

// Seven decades, each with twice as many values as the one below: the exponent's unary length is taken from
// the bits of the fraction. bitsandbytes' create_dynamic_map.
std::array<float, DynamicMap::kSize> MapValues(bool is_signed) {
  std::vector<float> values = {0.0f, 1.0f};
  for (int decade = 0; decade < 7; ++decade) {
    const auto scale = static_cast<float>(std::pow(10.0, decade - 6));
    const std::vector<float> boundaries = Boundaries((is_signed ? 1 : 2) * (1 << decade) + 1);
    for (size_t i = 0; i + 1 < boundaries.size(); ++i) {
      const float mean = (boundaries[i] + boundaries[i + 1]) / 2.0f;
      values.push_back(scale * mean);
      if (is_signed) values.push_back(-scale * mean);
    }
  }
  std::array<float, DynamicMap::kSize> sorted{};
  std::copy(values.begin(), values.end(), sorted.begin());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

// The step that bitsandbytes' CPU library rounds a value in [-1, 1] to; NaN falls on the first.
int StepOf(float value) {
  if (std::isnan(value)) return 0;
  return static_cast<int>(std::fma((value + 1.0f) * 0.5f, static_cast<float>(kSteps - 1), 0.5f));
}

float LargestMagnitude(std::span<const float> values) {
  float largest = 0.0f;
  bool finite = true;
  for (const float value : values) {
    const float magnitude = std::fabs(value);
    finite = finite && std::isfinite(value);
    largest = magnitude > largest ? magnitude : largest;
  }
  return finite ? largest : NAN;
}

void QuantizeBlock(std::span<const float> values, float absmax, const DynamicMap& map, CodeSearch search,
                   uint8_t* codes) {
  if (std::isnan(absmax)) {
    std::fill_n(codes, values.size(), uint8_t{DynamicMap::kSize - 1});
    return;
  }
  const bool tabled = search == CodeSearch::kStepTable;
  if (tabled && absmax == 0.0f) {
    std::fill_n(codes, values.size(), uint8_t{0});
    return;
  }
  const float scale = 1.0f / (tabled ? absmax : std::max(absmax, kSmallestScale));
  for (size_t i = 0; i < values.size(); ++i) codes[i] = map.Code(values[i] * scale, search);
}

}  // namespace

const DynamicMap& DynamicMap::Signed() {
  static const DynamicMap map(true);
  return map;
}

const DynamicMap& DynamicMap::Unsigned() {
  static const DynamicMap map(false);
  return map;
}

DynamicMap::DynamicMap(bool is_signed) : values_(MapValues(is_signed)), steps_(kSteps) {
  for (int i = 0; i + 1 < kSize; ++i) midpoints_[i] = 0.5f * (values_[i] + values_[i + 1]);
  for (int i = 0; i < kSteps; ++i) {
    steps_[i] = Nearest(-1.0f + 2.0f * static_cast<float>(i) / static_cast<float>(kSteps - 1));
  }
}

uint8_t DynamicMap::Nearest(float value) const {
  return static_cast<uint8_t>(std::lower_bound(midpoints_.begin(), midpoints_.end(), value) -
                              midpoints_.begin());
}

uint8_t DynamicMap::Code(float value, CodeSearch search) const {
  if (search == CodeSearch::kNearest) return Nearest(value);
  return steps_[StepOf(std::clamp(value, -1.0f, 1.0f))];
}

void QuantizeBlockwise(std::span<const float> values, int64_t block, const DynamicMap& map, uint8_t* codes,
                       float* absmax, CodeSearch search) {
  const auto count = static_cast<int64_t>(values.size());
  for (int64_t begin = 0; begin < count; begin += block) {
    const auto part = values.subspan(begin, std::min(block, count - begin));
    absmax[begin / block] = LargestMagnitude(part);
    QuantizeBlock(part, absmax[begin / block], map, search, codes + begin);
  }
}

void DequantizeBlockwise(const uint8_t* codes, const float* absmax, int64_t block, const DynamicMap& map,
                         std::span<float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = map.values()[codes[i]] * absmax[static_cast<int64_t>(i) / block];
  }
}

}  // namespace ftune
