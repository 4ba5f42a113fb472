// How ggml lays out quantised blocks (ggml-common.h of llama.cpp): one struct a type, all of bytes, so that a
// block may lie at any address. Nibbles, pairs of bits and single bits of several values share a byte; the
// values' order is written at each field.
#pragma once

#include <array>
#include <cstdint>

#include "base/convert.h"

namespace ftune::ggml {

inline constexpr int kSmallBlock = 32;  // values
inline constexpr int kSuperBlock = 256;

struct Half {  // fp16, little-endian
  uint8_t bytes[2];
  float value() const { return HalfToFloat(static_cast<uint16_t>(bytes[0] | bytes[1] << 8)); }
};
inline Half ToHalf(float value) {
  const uint16_t bits = FloatToHalf(value);
  return {{static_cast<uint8_t>(bits), static_cast<uint8_t>(bits >> 8)}};
}

// Blocks of 32. `nibbles`: byte j has value j low and value j + 16 high. `high`: bit j is value j's fifth.
struct Q4_0 {
  Half scale;
  uint8_t nibbles[16];
};
struct Q4_1 {
  Half scale, minimum;
  uint8_t nibbles[16];
};
struct Q5_0 {
  Half scale;
  uint8_t high[4];
  uint8_t nibbles[16];
};
struct Q5_1 {
  Half scale, minimum;
  uint8_t high[4];
  uint8_t nibbles[16];
};
struct Q8_0 {
  Half scale;
  int8_t values[32];
};
struct IQ4_NL {
  Half scale;
  uint8_t nibbles[16];
};

// Super-blocks of 256.
struct Q2_K {          // value = scale * s * q - minimum * m
  uint8_t scales[16];  // of 16 values each: s low, m high
  uint8_t pairs[64];   // byte 32h + j has values 128h + 32k + j, k = 0 … 3 from the low bits up
  Half scale, minimum;
};
struct Q3_K {          // value = scale * s * q, q from -4 to 3
  uint8_t high[32];    // byte j has values 32k + j, k = 0 … 7; a bit that is clear takes 4 away
  uint8_t pairs[64];   // as Q2_K's
  uint8_t scales[12];  // 16 of 6 bits; SixBitScales
  Half scale;
};
struct Q4_K {  // value = scale * s * q - minimum * m
  Half scale, minimum;
  uint8_t scales[12];    // 8 pairs of 6 bits, for 32 values each; SixBitPairs
  uint8_t nibbles[128];  // byte 32c + j has value 64c + j low and 64c + 32 + j high
};
struct Q5_K {  // as Q4_K, with a fifth bit
  Half scale, minimum;
  uint8_t scales[12];
  uint8_t high[32];  // byte j has values 32k + j, k = 0 … 7
  uint8_t nibbles[128];
};
struct Q6_K {            // value = scale * s * q, q from -32 to 31
  uint8_t nibbles[128];  // byte 64h + i has value 128h + i low and 128h + 64 + i high
  uint8_t pairs[64];     // as Q2_K's
  int8_t scales[16];     // of 16 values each
  Half scale;
};
static_assert(sizeof(Q4_0) == 18 && sizeof(Q4_1) == 20 && sizeof(Q5_0) == 22 && sizeof(Q5_1) == 24);
static_assert(sizeof(Q8_0) == 34 && sizeof(IQ4_NL) == 18 && sizeof(Q2_K) == 84 && sizeof(Q3_K) == 110);
static_assert(sizeof(Q4_K) == 144 && sizeof(Q5_K) == 176 && sizeof(Q6_K) == 210);

// IQ4_NL's values, by nibble.
inline constexpr std::array<int8_t, 16> kNonlinear = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                      1,    13,   25,  38,  53,  69,  89,  113};

struct ScaleAndMinimum {
  int scale, minimum;  // 0 to 63
};
// Of group 0 to 7: Q4_K's and Q5_K's 12 bytes have groups 0 to 3 whole in the low six bits of their first 8
// bytes; groups 4 to 7 have a nibble in the last 4 bytes and their upper two bits above those of the others.
inline ScaleAndMinimum SixBitPair(const uint8_t* scales, int group) {
  if (group < 4) return {scales[group] & 63, scales[group + 4] & 63};
  const int low = scales[group + 4];
  return {(low & 15) | scales[group - 4] >> 6 << 4, low >> 4 | scales[group] >> 6 << 4};
}

// Of group 0 to 15, -32 to 31: Q3_K's first 8 bytes have a nibble of group i low and of group i + 8 high, the
// last 4 the upper two bits of groups i, i + 4, i + 8 and i + 12.
inline int SixBitScale(const uint8_t* scales, int group) {
  const int low = scales[group % 8] >> (group / 8 * 4) & 15;
  const int high = scales[8 + group % 4] >> (group / 4 * 2) & 3;
  return (low | high << 4) - 32;
}

}  // namespace ftune::ggml
