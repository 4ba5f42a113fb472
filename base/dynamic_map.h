// The 8-bit dynamic data type of Dettmers et al., "8-bit optimizers via block-wise quantization" (2021,
// section 2.1): 256 values in [-1, 1], dense near zero, with a scale for each block of values. As in
// bitsandbytes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace ftune {

// How a value between two of the map's is given a code.
enum class CodeSearch : uint8_t {
  // The nearest value's; of two that are equally near, the lower one's. What bitsandbytes does on a GPU.
  kNearest,
  // The nearest to one of 65536 steps in [-1, 1] that the value is first rounded to: what bitsandbytes does
  // on
  // a CPU, to the bit. Values below 1.5e-5 of a block's largest come out wrong by their own size or more.
  kStepTable,
};

class DynamicMap {
 public:
  static constexpr int kSize = 256;

  static const DynamicMap& Signed();    // from -0.993 to 1, for weights and first moments
  static const DynamicMap& Unsigned();  // from 0 to 1, for second moments

  // Ascending.
  const std::array<float, kSize>& values() const { return values_; }
  // Between neighbours: the nearest value's code is the number of midpoints below a value.
  const std::array<float, kSize - 1>& midpoints() const { return midpoints_; }
  // Of `value`, scaled into [-1, 1] (what lies beyond gets the last code there; NaN gets code 0).
  uint8_t Code(float value, CodeSearch search) const;

 private:
  explicit DynamicMap(bool is_signed);

  uint8_t Nearest(float value) const;

  std::array<float, kSize> values_;
  std::array<float, kSize - 1> midpoints_;
  std::vector<uint8_t> steps_;  // code of each step
};

// Codes of `values` and, for each block of `block` values (the last may be shorter), its largest magnitude in
// `absmax`. A block of zeros comes back as zeros. A value that is not finite makes its block's absmax NaN:
// the whole block comes back as NaN.
void QuantizeBlockwise(std::span<const float> values, int64_t block, const DynamicMap& map, uint8_t* codes,
                       float* absmax, CodeSearch search = CodeSearch::kNearest);

// values[i] = map[codes[i]] * absmax[i / block].
void DequantizeBlockwise(const uint8_t* codes, const float* absmax, int64_t block, const DynamicMap& map,
                         std::span<float> values);

}  // namespace ftune
