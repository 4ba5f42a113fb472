#include "tests/unit/kernels/kernels.h"

namespace ftune::test {
namespace {

constexpr float kNormEps = 1e-5f;

struct Norm {
  Matrix y, normed, stats;
};
Norm Reference(const Matrix& x, const Matrix& w, const Matrix& b, int64_t rows, int64_t cols) {
  Norm n{Matrix(x.size()), Matrix(x.size()), Matrix(rows * 2)};
  for (int64_t t = 0; t < rows; ++t) {
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < cols; ++c) sum += x[t * cols + c];
    const double mean = sum / cols;
    for (int64_t c = 0; c < cols; ++c) squares += (x[t * cols + c] - mean) * (x[t * cols + c] - mean);
    const double rstd = 1 / std::sqrt(squares / cols + static_cast<double>(kNormEps));
    n.stats[t * 2] = mean;
    n.stats[t * 2 + 1] = rstd;
    for (int64_t c = 0; c < cols; ++c) {
      n.normed[t * cols + c] = (x[t * cols + c] - mean) * rstd;
      n.y[t * cols + c] = n.normed[t * cols + c] * w[c] + b[c];
    }
  }
  return n;
}

TEST_CASE("layer norm against its definition, its gradients against finite differences") {
  ForEachTarget([] {
    Device device;
    for (const int64_t cols : {3, 17, 64, 577}) {
      for (const DType type : {DType::kF32, DType::kBF16}) {
        CAPTURE(cols);
        CAPTURE(Name(type));
        const int64_t rows = 5;
        const Tensor x = device.Random(rows, cols, 1, 6);
        const Tensor w = device.RandomWeight(type, 1, cols, 2), b = device.RandomWeight(type, 1, cols, 6);
        const Tensor y = device.Empty(rows, cols, 3);
        const Tensor stats = device.Empty(rows, 2, 2);
        device.backend.LayerNormForward({}, x, w, b, kNormEps, y, stats);
        const Matrix xs = Values(x), ws = Values(w), bs = Values(b);
        const Norm norm = Reference(xs, ws, bs, rows, cols);
        CHECK(ErrorInEps(y, norm.y, 1.0) <= 6);
        CHECK(ErrorInEps(stats, norm.stats, 1.0) <= 6);
        const Tensor in_place = device.Copy(x);
        device.backend.LayerNormForward({}, in_place, w, b, kNormEps, in_place, stats);
        CHECK(SameBits(in_place, y));

        const Tensor dy = device.Random(rows, cols, 3, 2);
        const Tensor dx = device.Random(rows, cols, 4, 4);
        const Tensor dw = device.Random(1, cols, 5), db = device.Random(1, cols, 7);
        Matrix dx_expected = Values(dx), dw_expected = Values(dw), db_expected = Values(db);
        const Matrix dys = Values(dy);
        const double h = 1e-5;
        for (int64_t i = 0; i < rows * cols; ++i) {
          const int64_t t = i / cols, c = i % cols;
          const auto loss = [&](double shift) {
            Matrix row(xs.begin() + t * cols, xs.begin() + (t + 1) * cols);
            row[c] += shift;
            const Norm moved = Reference(row, ws, bs, 1, cols);
            double sum = 0;
            for (int64_t j = 0; j < cols; ++j) sum += moved.y[j] * dys[t * cols + j];
            return sum;
          };
          dx_expected[i] += (loss(h) - loss(-h)) / (2 * h);
          dw_expected[c] += dys[i] * norm.normed[i];
          db_expected[c] += dys[i];
        }
        device.backend.LayerNormBackwardInput({}, dy, x, w, stats, dx);
        CHECK(ErrorInEps(dx, dx_expected, 2.0) <= 64);

        const Tensor only_dw = device.Copy(dw), only_db = device.Copy(db);
        device.backend.LayerNormBackwardWeight({}, dy, x, stats, dw, db);
        CHECK(ErrorInEps(dw, dw_expected, 4.0) <= 6);
        CHECK(ErrorInEps(db, db_expected, 4.0) <= 4);
        device.backend.LayerNormBackwardWeight({}, dy, x, stats, only_dw, Tensor());
        device.backend.LayerNormBackwardWeight({}, dy, x, stats, Tensor(), only_db);
        CHECK(SameBits(only_dw, dw));
        CHECK(SameBits(only_db, db));
      }
    }
  });
}

TEST_CASE("layer norm far from zero, of a constant row, and of one column") {
  ForEachTarget([] {
    Device device;
    const int64_t cols = 100;
    const Tensor x = device.Random(1, cols, 1), y = device.Empty(1, cols), stats = device.Empty(1, 2);
    const Tensor ones = device.Filled(1, cols, 1.0f), zeros = device.Filled(1, cols, 0.0f);
    for (int64_t c = 0; c < cols; ++c) x.f32()[c] += 3000.0f;
    device.backend.LayerNormForward({}, x, ones, zeros, kNormEps, y, stats);
    const Norm norm = Reference(Values(x), Matrix(cols, 1.0), Matrix(cols, 0.0), 1, cols);
    // The mean is good to an ulp of 3000; E[x²] - E[x]² would leave no digit of the variance.
    CHECK(ErrorInEps(y, norm.y, 1.0) <= 3000 * 4);
    CHECK(ErrorInEps(stats, norm.stats) <= 64);

    const Tensor shift = device.Filled(1, cols, 0.25f);
    device.backend.LayerNormForward({}, device.Filled(1, cols, 7.0f), ones, shift, kNormEps, y, stats);
    CHECK(ErrorInEps(y, Matrix(cols, 0.25)) <= 1000);
    device.backend.LayerNormForward({}, x.Cols(0, 1), ones.Cols(0, 1), shift.Cols(0, 1), kNormEps,
                                    y.Cols(0, 1), stats);
    CHECK(y.f32()[0] == 0.25f);
  });
}

TEST_CASE("layer norm does not depend on the number of threads") {
  Device one(1), three(3);
  const int64_t rows = 5000, cols = 33;
  std::vector<std::vector<Tensor>> results;
  for (Device* device : {&one, &three}) {
    const Tensor x = device->Random(rows, cols, 1), dy = device->Random(rows, cols, 2);
    const Tensor w = device->Random(1, cols, 3), b = device->Random(1, cols, 4);
    const Tensor y = device->Empty(rows, cols), stats = device->Empty(rows, 2);
    const Tensor dx = device->Filled(rows, cols, 0.0f);
    const Tensor dw = device->Filled(1, cols, 0.0f), db = device->Filled(1, cols, 0.0f);
    device->backend.LayerNormForward({}, x, w, b, kNormEps, y, stats);
    device->backend.LayerNormBackwardInput({}, dy, x, w, stats, dx);
    device->backend.LayerNormBackwardWeight({}, dy, x, stats, dw, db);
    results.push_back({y, stats, dx, dw, db});
  }
  for (size_t i = 0; i < results[0].size(); ++i) {
    CAPTURE(i);
    CHECK(SameBits(results[0][i], results[1][i]));
  }
}

}  // namespace
}  // namespace ftune::test
