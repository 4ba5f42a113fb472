#include "base/torch_mean.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace ftune {
namespace {

constexpr int kLanes = 8;
constexpr int kRows = 4;    // vectors that are summed side by side
constexpr int kLevels = 4;  // of partial sums

// aten/src/ATen/native/cpu/SumKernel.cpp: rows of kRows vectors are added up in runs, the runs' sums in runs
// of those, and so on, so that no sum has many more terms than another.
template <int kWidth>
std::array<float, kWidth> CascadeSum(const float* values, int64_t vectors) {
  using Row = std::array<float, kRows * kWidth>;
  const int64_t rows = vectors / kRows;
  const int log = rows > 1 ? std::bit_width(static_cast<uint64_t>(rows - 1)) : 0;
  const int power = std::max(4, log / kLevels);
  const int64_t run = int64_t{1} << power;
  std::array<Row, kLevels> sums{};
  const auto add_row = [&](int64_t row) {
    for (size_t i = 0; i < sums[0].size(); ++i) sums[0][i] += values[row * kRows * kWidth + i];
  };
  const auto carry = [&](int level) {
    for (size_t i = 0; i < sums[0].size(); ++i) sums[level][i] += sums[level - 1][i];
    sums[level - 1].fill(0.0f);
  };
  int64_t row = 0;
  while (row + run <= rows) {
    for (int64_t i = 0; i < run; ++i) add_row(row++);
    for (int level = 1; level < kLevels; ++level) {
      carry(level);
      if ((row & ((run - 1) << (level * power))) != 0) break;
    }
  }
  while (row < rows) add_row(row++);
  for (int level = 1; level < kLevels; ++level) {
    for (size_t i = 0; i < sums[0].size(); ++i) sums[0][i] += sums[level][i];
  }
  std::array<float, kWidth> sum;
  std::copy_n(sums[0].begin(), kWidth, sum.begin());
  for (int64_t vector = rows * kRows; vector < vectors; ++vector) {
    for (int i = 0; i < kWidth; ++i) sum[i] += values[vector * kWidth + i];
  }
  for (int r = 1; r < kRows; ++r) {
    for (int i = 0; i < kWidth; ++i) sum[i] += sums[0][r * kWidth + i];
  }
  return sum;
}

float TorchSum(std::span<const float> values) {
  const auto count = static_cast<int64_t>(values.size());
  if (count < kLanes) return CascadeSum<1>(values.data(), count)[0];
  float sum = 0.0f;
  for (int64_t i = count / kLanes * kLanes; i < count; ++i) sum += values[i];
  for (const float lane : CascadeSum<kLanes>(values.data(), count / kLanes)) sum += lane;
  return sum;
}

}  // namespace

float TorchMean(std::span<const float> values) {
  return values.empty() ? 0.0f : TorchSum(values) / static_cast<float>(values.size());
}

}  // namespace ftune
