#include "engine/model/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

namespace ftune {
namespace {

// Llama 3.1: low frequencies are divided by the factor, high ones kept, those between blended.
double ScaleLlama3(const RopeConfig& config, double frequency) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double original = static_cast<double>(config.original_max_position);
  if (wavelength > original / config.low_freq_factor) return frequency / config.factor;
  if (wavelength < original / config.high_freq_factor) return frequency;
  const double smooth =
      (original / wavelength - config.low_freq_factor) / (config.high_freq_factor - config.low_freq_factor);
  return (1 - smooth) * frequency / config.factor + smooth * frequency;
}

// YaRN §3.2: dimensions that turn often within the trained context are kept, those that turn less than
// beta_slow times are divided by the factor, and a ramp over the dimensions blends between the two.
class YarnRamp {
 public:
  YarnRamp(const RopeConfig& config, int64_t dim) {
    const auto dimension = [&](double turns) {
      return static_cast<double>(dim) *
             std::log(static_cast<double>(config.original_max_position) / (turns * 2 * std::numbers::pi)) /
             (2 * std::log(config.theta));
    };
    double low = dimension(config.beta_fast);
    double high = dimension(config.beta_slow);
    if (config.truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low_ = std::max(low, 0.0);
    high_ = std::min(high, static_cast<double>(dim - 1));
    if (low_ == high_) high_ += 0.001;  // as transformers does, against a division by zero
  }
  // 0: keep, 1: divide.
  double At(int64_t i) const {
    return std::clamp((static_cast<double>(i) - low_) / (high_ - low_), 0.0, 1.0);
  }

 private:
  double low_;
  double high_;
};

double DynamicBase(const RopeConfig& config, int64_t dim, int64_t length) {
  const double trained = static_cast<double>(config.original_max_position);
  const double longest = std::max(static_cast<double>(length), trained);
  return config.theta * std::pow(config.factor * longest / trained - (config.factor - 1),
                                 static_cast<double>(dim) / static_cast<double>(dim - 2));
}

void FillRows(const RopeConfig& config, const std::vector<double>& frequencies, int64_t first, int64_t count,
              float* rows) {
  const int64_t half = static_cast<int64_t>(frequencies.size());
  for (int64_t position = first; position < first + count; ++position) {
    float* row = rows + (position - first) * 2 * half;
    for (int64_t i = 0; i < half; ++i) {
      // transformers rounds the frequency and the angle to f32; so do we, to agree with it at long positions.
      const double angle = static_cast<float>(position) * static_cast<float>(frequencies[i]);
      row[i] = static_cast<float>(std::cos(angle) * config.attention_factor);
      row[half + i] = static_cast<float>(std::sin(angle) * config.attention_factor);
    }
  }
}

}  // namespace

std::vector<double> RopeFrequencies(const RopeConfig& config, int64_t rotary_dim, int64_t length) {
  const bool long_text = length > config.original_max_position;
  const double base =
      config.kind == RopeKind::kDynamic ? DynamicBase(config, rotary_dim, length) : config.theta;
  const YarnRamp ramp(config, rotary_dim);
  std::vector<double> frequencies(rotary_dim / 2);
  for (int64_t i = 0; i < rotary_dim / 2; ++i) {
    double& frequency = frequencies[i];
    frequency = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim));
    switch (config.kind) {
      case RopeKind::kDefault:
      case RopeKind::kDynamic:
        break;
      case RopeKind::kLinear:
        frequency /= config.factor;
        break;
      case RopeKind::kYarn:
        frequency *= 1 - ramp.At(i) + ramp.At(i) / config.factor;
        break;
      case RopeKind::kLongRope:
        frequency /= (long_text ? config.long_factors : config.short_factors)[i];
        break;
      case RopeKind::kLlama3:
        frequency = ScaleLlama3(config, frequency);
        break;
    }
  }
  return frequencies;
}

PositionPlan PlanPositions(const RopeConfig& config, int64_t rotary_dim, int64_t length) {
  PositionPlan plan = {.rope = config, .rotary_dim = rotary_dim};
  if (length <= config.original_max_position) return plan;
  if (config.kind == RopeKind::kDynamic) plan.per_text = true;
  if (config.kind == RopeKind::kLongRope) {
    plan.long_after = config.original_max_position;
    plan.long_offset = length;
  }
  return plan;
}

Tensor MakeRopeTable(Backend& backend, Stream stream, const RopeConfig& config, int64_t rotary_dim,
                     int64_t length) {
  const bool two_kinds = PlanPositions(config, rotary_dim, length).long_after > 0;
  const Tensor table = backend.Allocate(two_kinds ? 2 * length : length, rotary_dim, Category::kBuffers);
  if (!backend.computes()) return table;
  std::vector<float> values(table.size());
  const int64_t shorter = two_kinds ? config.original_max_position : length;
  FillRows(config, RopeFrequencies(config, rotary_dim, shorter), 0, length, values.data());
  if (two_kinds) {
    FillRows(config, RopeFrequencies(config, rotary_dim, length), 0, length,
             values.data() + length * rotary_dim);
  }
  backend.Upload(stream, std::as_bytes(std::span(values)), table);
  return table;
}

Tensor MakeTextTable(Backend& backend, Stream stream, const PositionPlan& plan,
                     const std::vector<TextPositions>& texts, int64_t rows) {
  const Tensor table = backend.Allocate(rows, plan.rotary_dim, Category::kBuffers);
  if (!backend.computes()) return table;
  std::vector<float> values(table.size());
  int64_t row = 0;
  for (const TextPositions& text : texts) {
    FillRows(plan.rope, RopeFrequencies(plan.rope, plan.rotary_dim, text.length), text.first, text.count,
             values.data() + row * plan.rotary_dim);
    row += text.count;
  }
  backend.Upload(stream, std::as_bytes(std::span(values)), table);
  return table;
}

}  // namespace ftune
