#include "base/ggml_quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/ggml_layout.h"
#include "base/ggml_quantize_k.h"

namespace ftune {
namespace {

using ggml::kSmallBlock;
using ggml::kSuperBlock;

// 1 / scale; 0 where the scale is so small that nothing is left of it in fp16 either.
float Inverse(float scale) {
  const float inverse = 1.0f / scale;
  return scale == 0.0f || !std::isfinite(inverse) ? 0.0f : inverse;
}

// Symmetric: the largest magnitude becomes ±127.
ggml::Q8_0 QuantizeQ8_0(const float* x) {
  float largest = 0;
  for (int i = 0; i < kSmallBlock; ++i) largest = std::max(largest, std::abs(x[i]));
  const float scale = largest / 127;
  const float inverse = Inverse(scale);
  ggml::Q8_0 block{.scale = ggml::ToHalf(scale)};
  for (int i = 0; i < kSmallBlock; ++i) block.values[i] = static_cast<int8_t>(std::round(x[i] * inverse));
  return block;
}

// The first value of the largest magnitude becomes -8, so that its side has one step more than the other.
ggml::Q4_0 QuantizeQ4_0(const float* x) {
  const float extreme =
      *std::max_element(x, x + kSmallBlock, [](float a, float b) { return std::abs(a) < std::abs(b); });
  const float scale = extreme / -8;
  const float inverse = Inverse(scale);
  ggml::Q4_0 block{.scale = ggml::ToHalf(scale)};
  const auto code = [&](int i) { return std::min(static_cast<int>(x[i] * inverse + 8.5f), 15); };
  for (int i = 0; i < 16; ++i) block.nibbles[i] = static_cast<uint8_t>(code(i) | code(i + 16) << 4);
  return block;
}

template <class Block, Block (*kQuantize)(const float*), int kValues>
bool Blocks(const float* x, int64_t count, std::byte* to) {
  // More than any block can hold, and little enough that no sum of the searches overflows.
  constexpr float kLargest = 1e9f;
  for (int64_t i = 0; i < count; ++i) {
    if (!(std::abs(x[i]) <= kLargest)) return false;
  }
  for (int64_t i = 0; i < count; i += kValues, to += sizeof(Block)) {
    const Block block = kQuantize(x + i);
    if (!std::isfinite(block.scale.value())) return false;
    if constexpr (requires { block.minimum; }) {
      if (!std::isfinite(block.minimum.value())) return false;
    }
    std::memcpy(to, &block, sizeof(Block));
  }
  return true;
}

struct Row {
  DType dtype;
  bool (*quantize)(const float* x, int64_t count, std::byte* to);
};
constexpr Row kQuantizers[] = {
    {DType::kQ4_0, Blocks<ggml::Q4_0, QuantizeQ4_0, kSmallBlock>},
    {DType::kQ8_0, Blocks<ggml::Q8_0, QuantizeQ8_0, kSmallBlock>},
    {DType::kQ4_K, Blocks<ggml::Q4_K, QuantizeQ4_K, kSuperBlock>},
};

const Row* FindRow(DType dtype) {
  const auto* found = std::find_if(std::begin(kQuantizers), std::end(kQuantizers),
                                   [&](const Row& row) { return row.dtype == dtype; });
  return found == std::end(kQuantizers) ? nullptr : found;
}

}  // namespace

bool IsQuantizationTarget(DType to) { return FindRow(to) != nullptr; }

bool Quantize(DType to, const float* source, int64_t count, std::byte* destination) {
  return FindRow(to)->quantize(source, count, destination);
}

}  // namespace ftune
