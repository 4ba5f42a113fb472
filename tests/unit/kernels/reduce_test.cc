#include "tests/unit/kernels/kernels.h"

namespace ftune::test {
namespace {

TEST_CASE("bias gradient: column sums") {
  ForEachTarget([] {
    Device device;
    for (const int64_t rows : {1, 63, 64, 65, 300}) {
      for (const int64_t cols : kSizes) {
        CAPTURE(rows);
        CAPTURE(cols);
        const Tensor dy = device.Random(rows, cols, 1, 6);
        const Tensor dbias = device.Random(1, cols, 2);
        Matrix expected = Values(dbias);
        const Matrix d = Values(dy);
        for (int64_t i = 0; i < rows * cols; ++i) expected[i % cols] += d[i];
        device.backend.BiasBackward({}, dy, dbias);
        CHECK(ErrorInEps(dbias, expected, std::sqrt(rows)) <= 8);
      }
    }
  });
}

TEST_CASE("sum of squares, in double") {
  ForEachTarget([] {
    Device device;
    for (const int64_t cols : {int64_t{1}, int64_t{3}, int64_t{17}, int64_t{577}, int64_t{100000}}) {
      for (const int64_t gap : {0, 5}) {
        CAPTURE(cols);
        const Tensor x = device.Random(3, cols, 1, gap, 1e-3f);
        double expected = 5.0;
        for (const double v : Values(x)) expected += v * v;
        const Tensor sum = device.Double(5.0);
        device.backend.SumSquares({}, x, sum);
        CHECK(DoubleOf(sum) == doctest::Approx(expected).epsilon(1e-13));
      }
    }
    const Tensor x = device.Filled(1, 100, 1e30f);  // its squares are beyond fp32
    const Tensor sum = device.Double(0.0);
    device.backend.SumSquares({}, x, sum);
    CHECK(DoubleOf(sum) == doctest::Approx(1e62));
    x.f32()[77] = kNan;
    device.backend.SumSquares({}, x, sum);
    CHECK(std::isnan(DoubleOf(sum)));
  });
}

TEST_CASE("sums of squares do not depend on the number of threads") {
  Device one(1), three(3);
  const Tensor a = one.Double(0.0), b = three.Double(0.0);
  one.backend.SumSquares({}, one.Random(1, 1000003, 1), a);
  three.backend.SumSquares({}, three.Random(1, 1000003, 1), b);
  CHECK(DoubleOf(a) == DoubleOf(b));
  CHECK(DoubleOf(a) > 0.0);
}

TEST_CASE("clipping as torch.nn.utils.clip_grad_norm_") {
  Device device;
  const auto scale = [&](double sum, float max_norm, double loss_scale = 1.0) {
    const Tensor out = device.Empty(1, 1);
    device.backend.ClipScale({}, device.Double(sum), loss_scale, max_norm, out);
    return *out.f32();
  };
  CHECK(scale(0.25, 1.0f) == 1.0f);
  CHECK(scale(0.0, 1.0f) == 1.0f);
  CHECK(scale(16.0, 1.0f) == static_cast<float>(1.0 / (4.0 + 1e-6)));
  CHECK(scale(16.0, 4.0f) < 1.0f);  // the 1e-6 shows at the limit
  CHECK(std::isnan(scale(std::nan(""), 1.0f)));
  CHECK(scale(std::numeric_limits<double>::infinity(), 1.0f) == 0.0f);
  // The norm is that of the gradients before they were scaled, and the scale is taken out of them.
  CHECK(scale(16.0 * 64, 1.0f, 8.0) == static_cast<float>(1.0 / (4.0 + 1e-6) / 8.0));
  CHECK(scale(0.25 * 64, 1.0f, 8.0) == 0.125f);
  CHECK(scale(16.0 * 64, kInf, 8.0) == 0.125f);
}

TEST_CASE("norms of rows") {
  ForEachTarget([] {
    Device device;
    for (const int64_t cols : kSizes) {
      CAPTURE(cols);
      const Tensor x = device.Random(70, cols, 1, 6), norms = device.Empty(1, 70);
      const Matrix xs = Values(x);
      Matrix expected(70, 0.0);
      for (size_t i = 0; i < xs.size(); ++i) expected[i / cols] += xs[i] * xs[i];
      for (double& value : expected) value = std::sqrt(value);
      device.backend.RowNorms({}, x, norms);
      CHECK(ErrorInEps(norms, expected) <= 0.51);
    }
  });
}

TEST_CASE("products summed over rows") {
  ForEachTarget([] {
    Device device;
    for (const int64_t cols : kSizes) {
      for (const int64_t rows : {0, 1, 63, 200}) {
        CAPTURE(cols);
        CAPTURE(rows);
        const Tensor a = device.Random(rows, cols, 1, 6), b = device.Random(rows, cols, 2, 2);
        const Tensor out = device.Random(1, cols, 3);
        const Matrix as = Values(a), bs = Values(b);
        Matrix expected = Values(out);
        for (size_t i = 0; i < as.size(); ++i) expected[i % cols] += as[i] * bs[i];
        device.backend.ColumnDot({}, a, b, out);
        CHECK(ErrorInEps(out, expected, 8.0) <= 4);
      }
    }
  });
}

TEST_CASE("products summed over many rows do not depend on the number of threads") {
  Device one(1), three(3);
  std::vector<Tensor> sums;
  for (Device* device : {&one, &three}) {
    const Tensor out = device->Filled(1, 33, 1.0f);
    device->backend.ColumnDot({}, device->Random(5000, 33, 1), device->Random(5000, 33, 2), out);
    sums.push_back(out);
  }
  CHECK(SameBits(sums[0], sums[1]));
}

}  // namespace
}  // namespace ftune::test
