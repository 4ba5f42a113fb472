#include "base/ggml_blocks.h"

#include "base/ggml_layout.h"

namespace ftune {
namespace {

using namespace ggml;  // NOLINT: the layouts are what this file is about

int Nibble(const uint8_t* nibbles, int i) { return nibbles[i % 16] >> (i / 16 * 4) & 15; }
int FifthBit(const uint8_t* high, int i) { return (high[i / 8] >> (i % 8) & 1) << 4; }

void DecodeQ4_0(const Q4_0& block, float* to) {
  const float scale = block.scale.value();
  for (int i = 0; i < 32; ++i) to[i] = scale * static_cast<float>(Nibble(block.nibbles, i) - 8);
}

void DecodeQ4_1(const Q4_1& block, float* to) {
  const float scale = block.scale.value(), minimum = block.minimum.value();
  for (int i = 0; i < 32; ++i) to[i] = scale * static_cast<float>(Nibble(block.nibbles, i)) + minimum;
}

void DecodeQ5_0(const Q5_0& block, float* to) {
  const float scale = block.scale.value();
  for (int i = 0; i < 32; ++i) {
    to[i] = scale * static_cast<float>((Nibble(block.nibbles, i) | FifthBit(block.high, i)) - 16);
  }
}

void DecodeQ5_1(const Q5_1& block, float* to) {
  const float scale = block.scale.value(), minimum = block.minimum.value();
  for (int i = 0; i < 32; ++i) {
    to[i] = scale * static_cast<float>(Nibble(block.nibbles, i) | FifthBit(block.high, i)) + minimum;
  }
}

void DecodeQ8_0(const Q8_0& block, float* to) {
  const float scale = block.scale.value();
  for (int i = 0; i < 32; ++i) to[i] = scale * static_cast<float>(block.values[i]);
}

void DecodeIQ4_NL(const IQ4_NL& block, float* to) {
  const float scale = block.scale.value();
  for (int i = 0; i < 32; ++i) to[i] = scale * static_cast<float>(kNonlinear[Nibble(block.nibbles, i)]);
}

// Super-blocks: value i is 32k + j of half h.
int Pair(const uint8_t* pairs, int i) { return pairs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3; }
int Bit(const uint8_t* high, int i) { return high[i % 32] >> (i / 32) & 1; }
int WideNibble(const uint8_t* nibbles, int i) {
  return nibbles[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
}

void DecodeQ2_K(const Q2_K& block, float* to) {
  const float scale = block.scale.value(), minimum = block.minimum.value();
  for (int i = 0; i < kSuperBlock; ++i) {
    const int both = block.scales[i / 16];
    const float s = scale * static_cast<float>(both & 15), m = minimum * static_cast<float>(both >> 4);
    to[i] = s * static_cast<float>(Pair(block.pairs, i)) - m;
  }
}

void DecodeQ3_K(const Q3_K& block, float* to) {
  const float scale = block.scale.value();
  for (int i = 0; i < kSuperBlock; ++i) {
    const float s = scale * static_cast<float>(SixBitScale(block.scales, i / 16));
    to[i] = s * static_cast<float>(Pair(block.pairs, i) - (Bit(block.high, i) ? 0 : 4));
  }
}

void DecodeQ4_K(const Q4_K& block, float* to) {
  const float scale = block.scale.value(), minimum = block.minimum.value();
  for (int i = 0; i < kSuperBlock; ++i) {
    const ScaleAndMinimum pair = SixBitPair(block.scales, i / 32);
    const float s = scale * static_cast<float>(pair.scale), m = minimum * static_cast<float>(pair.minimum);
    to[i] = s * static_cast<float>(WideNibble(block.nibbles, i)) - m;
  }
}

void DecodeQ5_K(const Q5_K& block, float* to) {
  const float scale = block.scale.value(), minimum = block.minimum.value();
  for (int i = 0; i < kSuperBlock; ++i) {
    const ScaleAndMinimum pair = SixBitPair(block.scales, i / 32);
    const float s = scale * static_cast<float>(pair.scale), m = minimum * static_cast<float>(pair.minimum);
    to[i] = s * static_cast<float>(WideNibble(block.nibbles, i) | Bit(block.high, i) << 4) - m;
  }
}

void DecodeQ6_K(const Q6_K& block, float* to) {
  const float scale = block.scale.value();
  for (int i = 0; i < kSuperBlock; ++i) {
    const float s = scale * static_cast<float>(block.scales[i / 16]);
    const int nibble = block.nibbles[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4) & 15;
    to[i] = s * static_cast<float>((nibble | Pair(block.pairs, i) << 4) - 32);
  }
}

template <class Block, void (*kDecode)(const Block&, float*), int kValues>
void Decode(const std::byte* from, int64_t blocks, float* to) {
  for (int64_t i = 0; i < blocks; ++i) {
    kDecode(reinterpret_cast<const Block*>(from)[i], to + i * kValues);
  }
}

struct Row {
  DType dtype;
  BlockDecoder decode;
};
constexpr Row kDecoders[] = {
    {DType::kQ4_0, Decode<Q4_0, DecodeQ4_0, kSmallBlock>},
    {DType::kQ4_1, Decode<Q4_1, DecodeQ4_1, kSmallBlock>},
    {DType::kQ5_0, Decode<Q5_0, DecodeQ5_0, kSmallBlock>},
    {DType::kQ5_1, Decode<Q5_1, DecodeQ5_1, kSmallBlock>},
    {DType::kQ8_0, Decode<Q8_0, DecodeQ8_0, kSmallBlock>},
    {DType::kIQ4_NL, Decode<IQ4_NL, DecodeIQ4_NL, kSmallBlock>},
    {DType::kQ2_K, Decode<Q2_K, DecodeQ2_K, kSuperBlock>},
    {DType::kQ3_K, Decode<Q3_K, DecodeQ3_K, kSuperBlock>},
    {DType::kQ4_K, Decode<Q4_K, DecodeQ4_K, kSuperBlock>},
    {DType::kQ5_K, Decode<Q5_K, DecodeQ5_K, kSuperBlock>},
    {DType::kQ6_K, Decode<Q6_K, DecodeQ6_K, kSuperBlock>},
};

}  // namespace

BlockDecoder FindGgmlDecoder(DType dtype) {
  for (const Row& row : kDecoders) {
    if (row.dtype == dtype) return row.decode;
  }
  return nullptr;
}

}  // namespace ftune
