// Shared by the tests of the CPU backend's ops: tensors with known values, and comparison in epsilons.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/convert.h"
#include "base/random.h"
#include "engine/backend/cpu/cpu_backend.h"
#include "engine/backend/cpu/targets.h"
#include "hwy/highway.h"

namespace ftune::test {

inline constexpr int64_t kSizes[] = {1, 3, 17, 64, 577};
inline constexpr double kEps = 0x1p-23;
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

// Every type that a weight can be stored in.
inline constexpr DType kQuantizedTypes[] = {DType::kQ4_0, DType::kQ4_1,   DType::kQ5_0, DType::kQ5_1,
                                            DType::kQ8_0, DType::kIQ4_NL, DType::kQ2_K, DType::kQ3_K,
                                            DType::kQ4_K, DType::kQ5_K,   DType::kQ6_K};
inline std::vector<DType> WeightTypes() {
  std::vector<DType> types = {DType::kF32, DType::kF16, DType::kBF16};
  types.insert(types.end(), std::begin(kQuantizedTypes), std::end(kQuantizedTypes));
  return types;
}
// Where a block's fp16 scale and minimum lie, in bytes from its begin.
inline std::vector<int64_t> HalfOffsets(DType dtype) {
  switch (dtype) {
    case DType::kQ2_K:
      return {80, 82};
    case DType::kQ3_K:
      return {108};
    case DType::kQ6_K:
      return {208};
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    default:
      return {0};
  }
}
// A number of columns that is `blocks` blocks of 32, or as many of the type's own if those are larger.
inline int64_t Columns(DType dtype, int64_t blocks) {
  return blocks * std::max<int64_t>(32, BlockSize(dtype));
}

using Matrix = std::vector<double>;  // row-major, without gaps

// Runs `body` once for each instruction set that this machine has and the kernels were compiled for.
inline void ForEachTarget(const std::function<void()>& body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const std::string target_name = hwy::TargetName(target);
    CAPTURE(target_name);
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
}

struct Device {
  explicit Device(int threads = 2) : backend(CpuOptions{threads}) {}

  // Uninitialised; with a gap, a view whose rows lie `gap` values apart and whose first starts inside the
  // storage.
  Tensor Empty(int64_t rows, int64_t cols, int64_t gap = 0, DType dtype = DType::kF32) {
    const Tensor all = backend.Allocate(dtype, rows, cols + gap, Category::kBuffers);
    return gap == 0 ? all : all.Cols(gap / 2 / BlockSize(dtype) * BlockSize(dtype), cols);
  }
  // Uniform in [-range, range).
  Tensor Random(int64_t rows, int64_t cols, uint64_t seed, int64_t gap = 0, float range = 1.0f) {
    const Tensor x = Empty(rows, cols, gap);
    RandomSequence random(seed, 1);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) x.f32()[r * x.stride() + c] = (2 * random.Uniform() - 1) * range;
    }
    return x;
  }
  Tensor Filled(int64_t rows, int64_t cols, float value, int64_t gap = 0) {
    const Tensor x = Empty(rows, cols, gap);
    for (int64_t r = 0; r < rows; ++r) std::fill_n(x.f32() + r * x.stride(), cols, value);
    return x;
  }
  Tensor Ints(const std::vector<int32_t>& values) {
    const Tensor x = Empty(1, values.size(), 0, DType::kI32);
    std::copy(values.begin(), values.end(), x.i32());
    return x;
  }
  Tensor Double(double value) {
    const Tensor x = Empty(1, 1, 0, DType::kF64);
    std::memcpy(x.bytes(), &value, sizeof(value));
    return x;
  }
  Tensor Copy(const Tensor& x) {
    const Tensor y = Empty(x.rows(), x.cols(), 0, x.dtype());
    backend.Convert({}, x, y);
    return y;
  }
  // A weight of any type with random values, rows `gap` values apart.
  Tensor RandomWeight(DType dtype, int64_t rows, int64_t cols, uint64_t seed, int64_t gap = 0) {
    if (dtype == DType::kF32) return Random(rows, cols, seed, gap);
    const Tensor x = Empty(rows, cols, gap, dtype);
    RandomSequence random(seed, 2);
    for (int64_t r = 0; r < rows; ++r) {
      std::byte* row = x.bytes() + BytesFor(dtype, r * x.stride());
      if (!IsQuantized(dtype)) {
        for (int64_t c = 0; c < cols; ++c) {
          const float value = 2 * random.Uniform() - 1;
          ConvertFromF32(dtype, &value, 1, row + BytesFor(dtype, c));
        }
        continue;
      }
      for (int64_t i = 0; i < BytesFor(dtype, cols); ++i) row[i] = static_cast<std::byte>(random.Next());
      for (int64_t block = 0; block < cols / BlockSize(dtype); ++block) {  // ordinary scales and minima
        for (const int64_t offset : HalfOffsets(dtype)) {
          const uint16_t half = FloatToHalf((random.Uniform() - 0.5f) * 0.2f);
          std::memcpy(row + block * BlockBytes(dtype) + offset, &half, 2);
        }
      }
    }
    return x;
  }

  CpuBackend backend;
};

inline Matrix Values(const Tensor& x) {
  Matrix values;
  std::vector<float> row(x.cols());
  for (int64_t r = 0; r < x.rows(); ++r) {
    ConvertToF32(x.dtype(), x.bytes() + BytesFor(x.dtype(), r * x.stride()), x.cols(), row.data());
    values.insert(values.end(), row.begin(), row.end());
  }
  return values;
}

inline double DoubleOf(const Tensor& x) {
  double value;
  std::memcpy(&value, x.bytes(), sizeof(value));
  return value;
}

inline bool SameBits(const Tensor& x, const Tensor& y) {
  if (x.rows() != y.rows() || x.cols() != y.cols() || x.dtype() != y.dtype()) return false;
  for (int64_t r = 0; r < x.rows(); ++r) {
    const std::byte* a = x.bytes() + BytesFor(x.dtype(), r * x.stride());
    const std::byte* b = y.bytes() + BytesFor(y.dtype(), r * y.stride());
    if (std::memcmp(a, b, BytesFor(x.dtype(), x.cols())) != 0) return false;
  }
  return true;
}

// The largest |actual - expected| in units of epsilon * (|expected| + magnitude): `magnitude` is what the
// terms of a sum come to, where they may cancel. Infinite where one is NaN and the other is not.
inline double ErrorInEps(const Tensor& actual, const Matrix& expected, double magnitude = 0.0) {
  const Matrix values = Values(actual);
  REQUIRE(values.size() == expected.size());
  double worst = 0.0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == expected[i]) continue;
    const double scale = std::abs(expected[i]) + magnitude + std::numeric_limits<float>::min();
    const double error = std::abs(values[i] - expected[i]) / (kEps * scale);
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
  }
  return worst;
}

}  // namespace ftune::test
