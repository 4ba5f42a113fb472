#include "tests/unit/kernels/kernels.h"

namespace ftune::test {
namespace {

struct Reference {
  double loss = 0;
  Matrix gradient;
};
Reference CrossEntropyOf(const Matrix& logits, const std::vector<int32_t>& labels, int64_t cols, double scale,
                         double softcap = 0, double smoothing = 0) {
  Reference r;
  r.gradient.resize(logits.size());
  for (size_t row = 0; row < labels.size(); ++row) {
    Matrix z(logits.begin() + row * cols, logits.begin() + (row + 1) * cols), slope(cols, 1.0);
    for (int64_t c = 0; c < cols && softcap != 0; ++c) {
      const double tanh = std::tanh(z[c] / softcap);
      z[c] = softcap * tanh;
      slope[c] = 1 - tanh * tanh;
    }
    const double max = *std::max_element(z.begin(), z.end());
    double sum = 0;
    for (const double value : z) sum += std::exp(value - max);
    for (int64_t c = 0; c < cols; ++c) {
      const double log_p = z[c] - max - std::log(sum);
      const double target = (c == labels[row] ? 1 - smoothing : 0) + smoothing / cols;
      if (target != 0) r.loss -= target * log_p;
      r.gradient[row * cols + c] = scale * (std::exp(log_p) - target) * slope[c];
    }
  }
  return r;
}

double LossOf(Device& device, const Tensor& logits, const std::vector<int32_t>& labels, bool gradient) {
  const Tensor loss = device.Double(0.0);
  device.backend.CrossEntropy(
      {}, {.logits = logits, .labels = device.Ints(labels), .gradient = gradient, .loss = loss});
  return DoubleOf(loss);
}

TEST_CASE("cross-entropy and its gradient, with and without a cap and smoothing") {
  ForEachTarget([] {
    Device device;
    for (const int64_t cols : {int64_t{1}, int64_t{3}, int64_t{17}, int64_t{577}, int64_t{9001}}) {
      for (const float range : {1.0f, 60.0f}) {
        for (const float softcap : {0.0f, 5.0f, 30.0f}) {
          for (const float smoothing : {0.0f, 0.1f, 1.0f}) {
            CAPTURE(cols);
            CAPTURE(range);
            CAPTURE(softcap);
            CAPTURE(smoothing);
            const std::vector<int32_t> labels = {0, static_cast<int32_t>(cols - 1),
                                                 static_cast<int32_t>(cols / 2)};
            const Tensor logits = device.Random(3, cols, 1, 4, range);
            const Reference expected = CrossEntropyOf(Values(logits), labels, cols, 0.25, softcap, smoothing);
            const Tensor loss = device.Double(10.0);
            const Tensor before = device.Copy(logits);
            CrossEntropyArgs args = {.logits = logits,
                                     .labels = device.Ints(labels),
                                     .scale = 0.25f,
                                     .gradient = false,
                                     .loss = loss,
                                     .softcap = softcap,
                                     .label_smoothing = smoothing};
            device.backend.CrossEntropy({}, args);
            const double slack = 2e-6 * (std::abs(expected.loss) + 1);
            CHECK(std::abs(DoubleOf(loss) - 10.0 - expected.loss) <= slack);
            CHECK(SameBits(before, logits));

            args.gradient = true;
            args.loss = device.Double(0.0);
            device.backend.CrossEntropy({}, args);
            CHECK(std::abs(DoubleOf(args.loss) - expected.loss) <= slack);
            // The slope 1 - tanh² has the rounding errors of a number near 1.
            const double magnitude = softcap == 0.0f ? 0.25 * 0.05 : 0.25;
            CHECK(ErrorInEps(logits, expected.gradient, magnitude) <= 8);
          }
        }
      }
    }
  });
}

// torch.nn.functional.cross_entropy(x, t, label_smoothing=0.1, reduction="sum") in double precision.
TEST_CASE("smoothing as PyTorch defines it") {
  Device device;
  const Tensor logits = device.Empty(2, 3);
  const float values[] = {0.5f, -1.0f, 2.0f, 0.0f, 3.0f, -0.25f};
  std::copy_n(values, 6, logits.f32());
  const Tensor loss = device.Double(0.0);
  device.backend.CrossEntropy({}, {.logits = logits,
                                   .labels = device.Ints({2, 0}),
                                   .gradient = true,
                                   .loss = loss,
                                   .label_smoothing = 0.1f});
  CHECK(DoubleOf(loss) == doctest::Approx(3.384501525134).epsilon(1e-6));
  CHECK(ErrorInEps(logits,
                   {0.141957058310, 0.005779239441, -0.147736297751, -0.887596753742, 0.885310404344,
                    0.002286349397},
                   0.1) <= 4);
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
        CHECK_FALSE(std::isfinite(LossOf(device, logits, {5, 6}, false)));
      }
    }
    const Tensor all = device.Filled(1, 100, -kInf);
    CHECK_FALSE(std::isfinite(LossOf(device, all, {5}, false)));
  });
}

TEST_CASE("a word ruled out by minus infinity counts nothing") {
  ForEachTarget([] {
    Device device;
    const Tensor logits = device.Random(1, 20, 1);
    logits.f32()[3] = -kInf;
    const Reference expected = CrossEntropyOf(Values(logits), {5}, 20, 1.0);
    CHECK(LossOf(device, logits, {5}, true) == doctest::Approx(expected.loss).epsilon(1e-6));
    CHECK(logits.f32()[3] == 0.0f);
  });
}

TEST_CASE("slices of the vocabulary give the loss and gradients of the whole") {
  ForEachTarget([] {
    Device device;
    constexpr int64_t kCols = 9001;
    const std::vector<int32_t> labels = {0, 9000, 4500, 17};
    for (const float softcap : {0.0f, 5.0f}) {
      for (const float smoothing : {0.0f, 0.1f}) {
        for (const bool gradient : {false, true}) {
          const Tensor whole = device.Random(4, kCols, 1, 4, 20.0f);
          const Reference expected = CrossEntropyOf(Values(whole), labels, kCols, 0.25, softcap, smoothing);
          const Tensor before = device.Copy(whole);
          // What the ranks would do, one after the other: uneven slices, one of a single column.
          const std::vector<int64_t> ends = {4500, 4501, kCols};
          std::vector<CrossEntropySliceArgs> slices;
          int64_t begin = 0;
          for (const int64_t end : ends) {
            const CrossEntropyArgs args = {.logits = whole.Cols(begin, end - begin),
                                           .labels = device.Ints(labels),
                                           .scale = 0.25f,
                                           .gradient = gradient,
                                           .loss = device.Double(0.0),
                                           .softcap = softcap,
                                           .label_smoothing = smoothing};
            slices.push_back({.of = args,
                              .first_column = begin,
                              .vocabulary = kCols,
                              .max = device.Empty(1, 4),
                              .sums = device.Empty(3, 4, 0, DType::kF64)});
            begin = end;
          }
          for (auto& slice : slices) device.backend.CrossEntropyMax({}, slice);
          for (int64_t row = 0; row < 4; ++row) {
            float max = -kInf;
            for (auto& slice : slices) max = std::max(max, slice.max.f32()[row]);
            for (auto& slice : slices) slice.max.f32()[row] = max;
          }
          for (auto& slice : slices) device.backend.CrossEntropySums({}, slice);
          for (int64_t i = 0; i < 12; ++i) {
            const auto sums = [&](const CrossEntropySliceArgs& slice) {
              return reinterpret_cast<double*>(slice.sums.bytes()) + i;
            };
            double sum = 0;
            for (auto& slice : slices) sum += *sums(slice);
            for (auto& slice : slices) *sums(slice) = sum;
          }
          for (auto& slice : slices) {
            device.backend.CrossEntropyLoss({}, slice);
            CHECK(std::abs(DoubleOf(slice.of.loss) - expected.loss) <= 2e-6 * (std::abs(expected.loss) + 1));
          }
          if (gradient) {
            CHECK(ErrorInEps(whole, expected.gradient, softcap == 0.0f ? 0.25 * 0.05 : 0.25) <= 8);
          } else {
            CHECK(SameBits(before, whole));
          }
        }
      }
    }
  });
}

TEST_CASE("the loss does not depend on the number of threads") {
  double losses[2];
  for (const int threads : {1, 3}) {
    Device device(threads);
    const Tensor logits = device.Random(301, 777, 1, 0, 5.0f);
    std::vector<int32_t> labels(301);
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(i * 7 % 777);
    losses[threads / 2] = LossOf(device, logits, labels, true);
  }
  CHECK(losses[0] == losses[1]);
}

}  // namespace
}  // namespace ftune::test
