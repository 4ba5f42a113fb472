#include "tests/unit/kernels/kernels.h"

namespace ftune::test {
namespace {

constexpr float kNormEps = 1e-5f;

struct Norm {
  Matrix y, rstd;
};
Norm Reference(const Matrix& x, const Matrix& w, int64_t rows, int64_t cols) {
  Norm n{Matrix(rows * cols), Matrix(rows)};
  for (int64_t t = 0; t < rows; ++t) {
    double squares = 0;
    for (int64_t c = 0; c < cols; ++c) squares += x[t * cols + c] * x[t * cols + c];
    n.rstd[t] = 1 / std::sqrt(squares / cols + static_cast<double>(kNormEps));
    for (int64_t c = 0; c < cols; ++c) n.y[t * cols + c] = x[t * cols + c] * n.rstd[t] * w[c];
  }
  return n;
}

TEST_CASE("RMS norm against its definition, its gradients against finite differences") {
  ForEachTarget([] {
    Device device;
    for (const int64_t cols : kSizes) {
      for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
        CAPTURE(cols);
        CAPTURE(Name(type));
        const int64_t rows = 5;
        const Tensor x = device.Random(rows, cols, 1, 6);
        const Tensor w = device.RandomWeight(type, 1, cols, 2);
        const Tensor y = device.Empty(rows, cols, 3);
        const Tensor rstd = device.Empty(rows, 1);
        device.backend.RmsNormForward({}, x, w, kNormEps, y, rstd);
        const Matrix xs = Values(x), ws = Values(w);
        const Norm norm = Reference(xs, ws, rows, cols);
        CHECK(ErrorInEps(y, norm.y) <= 4);
        CHECK(ErrorInEps(rstd, norm.rstd) <= 3);

        const Tensor dy = device.Random(rows, cols, 3, 2);
        const Tensor dx = device.Random(rows, cols, 4, 4);
        const Tensor dw = device.Random(1, cols, 5);
        Matrix dx_expected = Values(dx), dw_expected = Values(dw);
        const Matrix dys = Values(dy);
        const double h = 1e-5;
        for (int64_t t = 0; t < rows; ++t) {
          for (int64_t c = 0; c < cols; ++c) {
            const auto loss = [&](double shift) {
              Matrix row(xs.begin() + t * cols, xs.begin() + (t + 1) * cols);
              row[c] += shift;
              const Norm moved = Reference(row, ws, 1, cols);
              double sum = 0;
              for (int64_t i = 0; i < cols; ++i) sum += moved.y[i] * dys[t * cols + i];
              return sum;
            };
            dx_expected[t * cols + c] += (loss(h) - loss(-h)) / (2 * h);
            dw_expected[c] += dys[t * cols + c] * xs[t * cols + c] * norm.rstd[t];
          }
        }
        device.backend.RmsNormBackwardInput({}, dy, x, w, rstd, dx);
        device.backend.RmsNormBackwardWeight({}, dy, x, rstd, dw);
        CHECK(ErrorInEps(dx, dx_expected, 1.0) <= 64);
        CHECK(ErrorInEps(dw, dw_expected, 4.0) <= 4);
      }
    }
  });
}

TEST_CASE("the norm's weight gradient over many rows does not depend on the number of threads") {
  Device one(1), three(3);
  const int64_t rows = 5000, cols = 33;
  std::vector<Tensor> sums;
  for (Device* device : {&one, &three}) {
    const Tensor x = device->Random(rows, cols, 1);
    const Tensor dy = device->Random(rows, cols, 2);
    const Tensor y = device->Empty(rows, cols);
    const Tensor rstd = device->Empty(rows, 1);
    device->backend.RmsNormForward({}, x, device->Filled(1, cols, 1.0f), kNormEps, y, rstd);
    const Tensor dw = device->Filled(1, cols, 0.0f);
    device->backend.RmsNormBackwardWeight({}, dy, x, rstd, dw);
    sums.push_back(dw);
  }
  CHECK(SameBits(sums[0], sums[1]));
}

TEST_CASE("no rows, no weight gradient") {
  Device device;
  const Tensor dw = device.Filled(1, 8, 3.0f);
  const Tensor empty = device.Empty(0, 8);
  device.backend.RmsNormBackwardWeight({}, empty, empty, device.Empty(0, 1), dw);
  CHECK(ErrorInEps(dw, Matrix(8, 3.0)) == 0);
}

}  // namespace
}  // namespace ftune::test
