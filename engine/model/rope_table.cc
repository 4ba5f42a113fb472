#include "engine/model/rope_table.h"

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

}  // namespace

std::vector<double> RopeFrequencies(const RopeConfig& config, int64_t head_dim) {
  std::vector<double> frequencies(head_dim / 2);
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    const double plain =
        std::pow(config.theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    switch (config.kind) {
      case RopeKind::kDefault:
        frequencies[i] = plain;
        break;
      case RopeKind::kLinear:
        frequencies[i] = plain / config.factor;
        break;
      case RopeKind::kLlama3:
        frequencies[i] = ScaleLlama3(config, plain);
        break;
    }
  }
  return frequencies;
}

Tensor MakeRopeTable(Backend& backend, Stream stream, const RopeConfig& config, int64_t head_dim,
                     int64_t length) {
  const Tensor table = backend.Allocate(length, head_dim, Category::kBuffers);
  if (!backend.computes()) return table;
  const std::vector<double> frequencies = RopeFrequencies(config, head_dim);
  const int64_t half = head_dim / 2;
  std::vector<float> values(length * head_dim);
  for (int64_t position = 0; position < length; ++position) {
    float* row = &values[position * head_dim];
    for (int64_t i = 0; i < half; ++i) {
      // transformers rounds the frequency and the angle to f32; so do we, to agree with it at long positions.
      const float angle = static_cast<float>(position) * static_cast<float>(frequencies[i]);
      row[i] = static_cast<float>(std::cos(static_cast<double>(angle)));
      row[half + i] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  }
  backend.Upload(stream, std::as_bytes(std::span(values)), table);
  return table;
}

}  // namespace ftune
