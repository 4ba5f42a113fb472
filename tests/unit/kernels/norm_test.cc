#include "tests/unit/kernels/kernels.h"

namespace ftune::test {
namespace {

struct Norm {
  Matrix y, rstd;
};
// x of `rows` rows, each of groups * width.
Norm Reference(const Matrix& x, const Matrix& w, int64_t rows, int64_t width, const NormOptions& options) {
  Norm n{Matrix(x.size()), Matrix(rows * options.groups)};
  for (int64_t g = 0; g < rows * options.groups; ++g) {
    double squares = 0;
    for (int64_t c = 0; c < width; ++c) squares += x[g * width + c] * x[g * width + c];
    n.rstd[g] = 1 / std::sqrt(squares / width + static_cast<double>(options.eps));
    for (int64_t c = 0; c < width; ++c) {
      n.y[g * width + c] = x[g * width + c] * n.rstd[g] * (w[c] + (options.unit_offset ? 1.0 : 0.0));
    }
  }
  return n;
}

void CheckNorm(Device& device, const NormOptions& options, int64_t width, DType type) {
  const int64_t rows = 5, cols = width * options.groups;
  const Tensor x = device.Random(rows, cols, 1, 6);
  const Tensor w = device.RandomWeight(type, 1, width, 2);
  const Tensor y = device.Empty(rows, cols, 3);
  const Tensor rstd = device.Empty(rows, options.groups);
  device.backend.RmsNormForward({}, x, w, options, y, rstd);
  const Matrix xs = Values(x), ws = Values(w);
  const Norm norm = Reference(xs, ws, rows, width, options);
  CHECK(ErrorInEps(y, norm.y) <= 5);
  CHECK(ErrorInEps(rstd, norm.rstd) <= 3);
  const Tensor in_place = device.Copy(x);
  device.backend.RmsNormForward({}, in_place, w, options, in_place, rstd);
  CHECK(SameBits(in_place, y));

  const Tensor dy = device.Random(rows, cols, 3, 2);
  const Tensor dx = device.Random(rows, cols, 4, 4);
  const Tensor dw = device.Random(1, width, 5);
  Matrix dx_expected(xs.size()), sum_expected = Values(dx), dw_expected = Values(dw);
  const Matrix dys = Values(dy);
  const double h = 1e-5;
  for (int64_t i = 0; i < rows * cols; ++i) {
    const int64_t group = i / width, c = i % width;
    const auto loss = [&](double shift) {
      NormOptions one = options;
      one.groups = 1;
      Matrix part(xs.begin() + group * width, xs.begin() + (group + 1) * width);
      part[c] += shift;
      const Norm moved = Reference(part, ws, 1, width, one);
      double sum = 0;
      for (int64_t j = 0; j < width; ++j) sum += moved.y[j] * dys[group * width + j];
      return sum;
    };
    dx_expected[i] = (loss(h) - loss(-h)) / (2 * h);
    sum_expected[i] += dx_expected[i];
    dw_expected[c] += dys[i] * xs[i] * norm.rstd[group];
  }
  device.backend.RmsNormBackwardInput({}, dy, x, w, options, rstd, true, dx);
  CHECK(ErrorInEps(dx, sum_expected, 1.0) <= 64);
  device.backend.RmsNormBackwardWeight({}, dy, x, options, rstd, dw);
  CHECK(ErrorInEps(dw, dw_expected, 4.0) <= 4);
  device.backend.RmsNormBackwardInput({}, dy, x, w, options, rstd, false, dx);
  CHECK(ErrorInEps(dx, dx_expected, 1.0) <= 64);
  device.backend.RmsNormBackwardInput({}, dy, x, w, options, rstd, false, dy);
  CHECK(SameBits(dy, dx));
  const Tensor over_x = device.Copy(x);
  const Tensor dy_again = device.Random(rows, cols, 3, 2);
  device.backend.RmsNormBackwardInput({}, dy_again, over_x, w, options, rstd, false, over_x);
  CHECK(SameBits(over_x, dx));
}

TEST_CASE("RMS norm against its definition, its gradients against finite differences") {
  ForEachTarget([] {
    Device device;
    for (const int64_t cols : kSizes) {
      for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
        CAPTURE(cols);
        CAPTURE(Name(type));
        CheckNorm(device, {.eps = 1e-5f}, cols, type);
      }
    }
  });
}

TEST_CASE("RMS norm of heads, and with a scale of 1 + w") {
  ForEachTarget([] {
    Device device;
    for (const int64_t width : {1, 6, 64, 80}) {
      for (const int64_t groups : {1, 3}) {
        for (const bool unit_offset : {false, true}) {
          CAPTURE(width);
          CAPTURE(groups);
          CAPTURE(unit_offset);
          const NormOptions options = {.eps = 1e-3f, .unit_offset = unit_offset, .groups = groups};
          CheckNorm(device, options, width, DType::kF32);
          CheckNorm(device, options, width, DType::kBF16);
        }
      }
    }
  });
}

TEST_CASE("the norm's weight gradient over many rows does not depend on the number of threads") {
  for (const int64_t groups : {1, 3}) {
    Device one(1), three(3);
    const int64_t rows = 5000, cols = 33;
    const NormOptions options = {.groups = groups};
    std::vector<Tensor> sums;
    for (Device* device : {&one, &three}) {
      const Tensor x = device->Random(rows, cols, 1);
      const Tensor dy = device->Random(rows, cols, 2);
      const Tensor y = device->Empty(rows, cols);
      const Tensor rstd = device->Empty(rows, groups);
      device->backend.RmsNormForward({}, x, device->Filled(1, cols / groups, 1.0f), options, y, rstd);
      const Tensor dw = device->Filled(1, cols / groups, 0.0f);
      device->backend.RmsNormBackwardWeight({}, dy, x, options, rstd, dw);
      sums.push_back(dw);
    }
    CHECK(SameBits(sums[0], sums[1]));
  }
}

TEST_CASE("no rows, no weight gradient") {
  Device device;
  const Tensor dw = device.Filled(1, 8, 3.0f);
  const Tensor empty = device.Empty(0, 8);
  device.backend.RmsNormBackwardWeight({}, empty, empty, {}, device.Empty(0, 1), dw);
  CHECK(ErrorInEps(dw, Matrix(8, 3.0)) == 0);
}

}  // namespace
}  // namespace ftune::test
