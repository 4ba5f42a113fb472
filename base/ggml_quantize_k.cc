#include "base/ggml_quantize_k.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace ftune {
namespace {

using ggml::kSuperBlock;

constexpr int kGroup = 32;
constexpr int kGroups = kSuperBlock / kGroup;
constexpr int kMaxCode = 15;
constexpr int kMaxScale = 63;

// Ties to even.
int Nearest(float value) { return static_cast<int>(std::nearbyint(value)); }
// 0 for NaN, too: 0 / 0 where a group is all alike.
int Code(float value) { return value > 0 ? Nearest(std::min<float>(value, kMaxCode)) : 0; }

// value ≈ scale * code + offset, offset ≤ 0.
struct Line {
  float scale = 0, offset = 0;
};
struct Fit {
  Line line;
  std::array<int, kGroup> codes = {};
};

struct Group {
  const float* x;
  float weights[kGroup];
  float sum_w = 0, sum_wx = 0;
};

Group Weigh(const float* x) {
  Group group{.x = x};
  float squares = 0;
  for (int i = 0; i < kGroup; ++i) squares += x[i] * x[i];
  const float typical = std::sqrt(squares / kGroup);
  for (int i = 0; i < kGroup; ++i) group.weights[i] = typical + std::abs(x[i]);
  group.sum_w = group.weights[0];
  group.sum_wx = group.weights[0] * x[0];
  for (int i = 1; i < kGroup; ++i) {
    group.sum_w += group.weights[i];
    group.sum_wx += group.weights[i] * x[i];
  }
  return group;
}

float WeightedError(const Group& group, const Fit& fit) {
  float error = 0;
  for (int i = 0; i < kGroup; ++i) {
    const float difference = fit.line.scale * static_cast<float>(fit.codes[i]) + fit.line.offset - group.x[i];
    error += group.weights[i] * (difference * difference);
  }
  return error;
}

// Gives `fit` the line that fits its codes best (weighted least squares); false if the codes are all alike.
bool FitLine(const Group& group, Fit& fit) {
  float sum_l = 0, sum_l2 = 0, sum_xl = 0;
  for (int i = 0; i < kGroup; ++i) {
    const float code = static_cast<float>(fit.codes[i]);
    const float weighted = group.weights[i] * code;
    sum_l += weighted;
    sum_l2 += weighted * code;
    sum_xl += weighted * group.x[i];
  }
  const float determinant = group.sum_w * sum_l2 - sum_l * sum_l;
  if (!(determinant > 0)) return false;
  fit.line.scale = (group.sum_w * sum_xl - group.sum_wx * sum_l) / determinant;
  fit.line.offset = (sum_l2 * group.sum_wx - sum_l * sum_xl) / determinant;
  if (fit.line.offset > 0) fit.line = {sum_xl / sum_l2, 0};
  return true;
}

// Codes are made with several steps near range / 15, a line is fitted to each, and the best one stays. Later
// trials start from the best offset so far.
Fit SearchLine(const Group& group) {
  constexpr int kTrials = 21;
  const auto [low, high] = std::minmax_element(group.x, group.x + kGroup);
  Fit best{.line = {0, std::min(*low, 0.0f)}};
  const auto codes = [&](float steps) {
    const float inverse = steps / (*high - best.line.offset);
    Fit fit;
    for (int i = 0; i < kGroup; ++i) fit.codes[i] = Code(inverse * (group.x[i] - best.line.offset));
    return fit;
  };
  const float first = kMaxCode / (*high - best.line.offset);
  if (!std::isfinite(first)) return best;  // all alike, or as good as
  best.codes = codes(kMaxCode).codes;
  best.line.scale = 1 / first;
  float least = WeightedError(group, best);
  for (int trial = 0; trial < kTrials; ++trial) {
    Fit fit = codes(-1.0f + 0.1f * static_cast<float>(trial) + kMaxCode);
    if (!FitLine(group, fit)) continue;
    const float error = WeightedError(group, fit);
    if (error < least) {
      least = error;
      best = fit;
    }
  }
  return best;
}

// Infinite where the largest is a subnormal number: then nothing is left of the block's scale.
int SixBits(float value) { return value < kMaxScale ? std::max(Nearest(value), 0) : kMaxScale; }

// The inverse of ggml::SixBitPair.
void PutSixBitPair(uint8_t* scales, int group, int scale, int minimum) {
  if (group < 4) {
    scales[group] = static_cast<uint8_t>(scale);
    scales[group + 4] = static_cast<uint8_t>(minimum);
    return;
  }
  scales[group + 4] = static_cast<uint8_t>((scale & 15) | (minimum & 15) << 4);
  scales[group - 4] |= static_cast<uint8_t>(scale >> 4 << 6);
  scales[group] |= static_cast<uint8_t>(minimum >> 4 << 6);
}

}  // namespace

ggml::Q4_K QuantizeQ4_K(const float* x) {
  Fit fits[kGroups];
  float max_scale = 0, max_minimum = 0;
  for (int g = 0; g < kGroups; ++g) {
    fits[g] = SearchLine(Weigh(x + g * kGroup));
    max_scale = std::max(max_scale, fits[g].line.scale);
    max_minimum = std::max(max_minimum, -fits[g].line.offset);
  }
  const float inverse_scale = max_scale > 0 ? kMaxScale / max_scale : 0.0f;
  const float inverse_minimum = max_minimum > 0 ? kMaxScale / max_minimum : 0.0f;
  ggml::Q4_K block{};
  block.scale = ggml::ToHalf(max_scale / kMaxScale);
  block.minimum = ggml::ToHalf(max_minimum / kMaxScale);
  for (int g = 0; g < kGroups; ++g) {
    PutSixBitPair(block.scales, g, SixBits(inverse_scale * fits[g].line.scale),
                  SixBits(inverse_minimum * -fits[g].line.offset));
  }
  // The codes are made again for the scales as they were rounded; where nothing is left of a scale they are
  // of no consequence, and stay.
  for (int g = 0; g < kGroups; ++g) {
    const ggml::ScaleAndMinimum pair = ggml::SixBitPair(block.scales, g);
    const float step = block.scale.value() * static_cast<float>(pair.scale);
    const float taken = block.minimum.value() * static_cast<float>(pair.minimum);
    for (int i = 0; i < kGroup; ++i) {
      const int code = step != 0 ? Code((x[g * kGroup + i] + taken) / step) : fits[g].codes[i];
      block.nibbles[g / 2 * kGroup + i] |= static_cast<uint8_t>(code << (g % 2 * 4));
    }
  }
  return block;
}

}  // namespace ftune
