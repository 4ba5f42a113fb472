#include "tests/unit/kernels/kernels.h"

namespace ftune::test {
namespace {

struct Reference {
  double loss = 0;
  Matrix gradient;
};
Reference CrossEntropyOf(const Matrix& logits, const std::vector<int32_t>& labels, int64_t cols,
                         double scale) {
  Reference r;
  r.gradient.resize(logits.size());
  for (size_t row = 0; row < labels.size(); ++row) {
    const double* x = logits.data() + row * cols;
    const double max = *std::max_element(x, x + cols);
    double sum = 0;
    for (int64_t c = 0; c < cols; ++c) sum += std::exp(x[c] - max);
    r.loss += std::log(sum) + max - x[labels[row]];
    for (int64_t c = 0; c < cols; ++c) {
      r.gradient[row * cols + c] = scale * (std::exp(x[c] - max) / sum - (c == labels[row] ? 1 : 0));
    }
  }
  return r;
}

TEST_CASE("cross-entropy and its gradient") {
  ForEachTarget([] {
    Device device;
    for (const int64_t cols : {int64_t{1}, int64_t{3}, int64_t{17}, int64_t{577}, int64_t{9001}}) {
      for (const float range : {1.0f, 60.0f}) {
        CAPTURE(cols);
        CAPTURE(range);
        const std::vector<int32_t> labels = {0, static_cast<int32_t>(cols - 1),
                                             static_cast<int32_t>(cols / 2)};
        const Tensor logits = device.Random(3, cols, 1, 4, range);
        const Reference expected = CrossEntropyOf(Values(logits), labels, cols, 0.25);
        const Tensor loss = device.Double(10.0);
        const Tensor before = device.Copy(logits);
        device.backend.CrossEntropy({}, logits, device.Ints(labels), 0.25f, false, loss);
        CHECK(DoubleOf(loss) - 10.0 == doctest::Approx(expected.loss).epsilon(1e-6));
        CHECK(SameBits(before, logits));

        const Tensor again = device.Double(0.0);
        device.backend.CrossEntropy({}, logits, device.Ints(labels), 0.25f, true, again);
        CHECK(DoubleOf(again) == doctest::Approx(expected.loss).epsilon(1e-6));
        CHECK(ErrorInEps(logits, expected.gradient, 0.25 * 0.05) <= 8);
      }
    }
  });
}

TEST_CASE("what is not finite shows in the loss") {
  ForEachTarget([] {
    Device device;
    for (const int64_t where : {int64_t{0}, int64_t{5}, int64_t{4999}}) {
      for (const float bad : {kNan, kInf}) {
        CAPTURE(where);
        CAPTURE(bad);
        const Tensor logits = device.Random(2, 5000, 1);
        logits.f32()[where] = bad;
        const Tensor loss = device.Double(0.0);
        device.backend.CrossEntropy({}, logits, device.Ints({5, 6}), 1.0f, false, loss);
        CHECK_FALSE(std::isfinite(DoubleOf(loss)));
      }
    }
    const Tensor all = device.Filled(1, 100, -kInf);
    const Tensor loss = device.Double(0.0);
    device.backend.CrossEntropy({}, all, device.Ints({5}), 1.0f, false, loss);
    CHECK_FALSE(std::isfinite(DoubleOf(loss)));
  });
}

TEST_CASE("a word ruled out by minus infinity counts nothing") {
  ForEachTarget([] {
    Device device;
    const Tensor logits = device.Random(1, 20, 1);
    logits.f32()[3] = -kInf;
    const Reference expected = CrossEntropyOf(Values(logits), {5}, 20, 1.0);
    const Tensor loss = device.Double(0.0);
    device.backend.CrossEntropy({}, logits, device.Ints({5}), 1.0f, true, loss);
    CHECK(DoubleOf(loss) == doctest::Approx(expected.loss).epsilon(1e-6));
    CHECK(logits.f32()[3] == 0.0f);
  });
}

TEST_CASE("the loss does not depend on the number of threads") {
  double losses[2];
  for (const int threads : {1, 3}) {
    Device device(threads);
    const Tensor logits = device.Random(301, 777, 1, 0, 5.0f);
    std::vector<int32_t> labels(301);
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(i * 7 % 777);
    const Tensor loss = device.Double(0.0);
    device.backend.CrossEntropy({}, logits, device.Ints(labels), 1.0f, true, loss);
    losses[threads / 2] = DoubleOf(loss);
  }
  CHECK(losses[0] == losses[1]);
}

}  // namespace
}  // namespace ftune::test
