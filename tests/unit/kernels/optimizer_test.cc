#include "tests/unit/kernels/kernels.h"

namespace ftune::test {
namespace {

constexpr double kLearningRate = 1e-3f;

// torch.optim.AdamW, one element, in double.
struct Element {
  double w, m, v;
  void Step(double g, int64_t step, double decay) {
    const double beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f;
    w *= 1 - kLearningRate * decay;
    m += (1 - beta1) * (g - m);
    v = beta2 * v + (1 - beta2) * g * g;
    const double denominator = std::sqrt(v) / std::sqrt(1 - std::pow(beta2, step)) + eps;
    w -= kLearningRate / (1 - std::pow(beta1, step)) * m / denominator;
  }
};

TEST_CASE("AdamW over decay ranges, with clipping and a rounded copy") {
  ForEachTarget([] {
    for (const DType low_type : {DType::kBF16, DType::kF16}) {
      Device device;
      const int64_t n = 20011;
      const Tensor w = device.Random(1, n, 1), m = device.Filled(1, n, 0.0f), v = device.Filled(1, n, 0.0f);
      const Tensor low = device.Empty(1, n, 0, low_type);
      const std::vector<DecayRange> decay = {{0, 17, 0.1f}, {17, 19000, 0.0f}, {19017, n - 19017, 0.01f}};
      std::vector<Element> expected;
      for (const double x : Values(w)) expected.push_back({x, 0, 0});
      for (int64_t step = 1; step <= 5; ++step) {
        const Tensor g = device.Random(1, n, 10 + step);
        const Matrix gs = Values(g);
        device.backend.AdamW({}, {.weights = w,
                                  .low = low,
                                  .gradients = g,
                                  .moment1 = m,
                                  .moment2 = v,
                                  .gradient_scale = device.Filled(1, 1, 0.5f),
                                  .decay = decay,
                                  .learning_rate = static_cast<float>(kLearningRate),
                                  .step = step});
        for (const DecayRange& range : decay) {
          for (int64_t i = range.begin; i < range.begin + range.count; ++i) {
            expected[i].Step(0.5 * gs[i], step, range.weight_decay);
          }
        }
      }
      Matrix ws, ms, vs;
      for (const Element& e : expected) {
        ws.push_back(e.w);
        ms.push_back(e.m);
        vs.push_back(e.v);
      }
      CHECK(ErrorInEps(w, ws, 1e-1) <= 4);
      CHECK(ErrorInEps(m, ms, 0.05) <= 4);
      CHECK(ErrorInEps(v, vs) <= 8);
      const Tensor rounded = device.Empty(1, n, 0, low_type);
      for (int64_t i = 0; i < n; ++i) {
        ConvertFromF32(low_type, w.f32() + i, 1, rounded.bytes() + 2 * i);
      }
      CHECK(SameBits(low, rounded));
    }
  });
}

TEST_CASE("AdamW keeps a gradient that is not a number in sight") {
  ForEachTarget([] {
    Device device;
    const Tensor w = device.Random(1, 40, 1), g = device.Random(1, 40, 2);
    g.f32()[7] = kNan;
    device.backend.AdamW({}, {.weights = w,
                              .gradients = g,
                              .moment1 = device.Filled(1, 40, 0.0f),
                              .moment2 = device.Filled(1, 40, 0.0f),
                              .gradient_scale = device.Filled(1, 1, 1.0f),
                              .decay = {{0, 40, 0.0f}},
                              .learning_rate = 0.1f});
    for (int64_t i = 0; i < 40; ++i) CHECK(std::isnan(w.f32()[i]) == (i == 7));
  });
}

TEST_CASE("SGD with weight decay in the gradient") {
  ForEachTarget([] {
    Device device;
    for (const int64_t n : {1, 3, 17, 20000}) {
      const Tensor w = device.Random(1, n, 1), g = device.Random(1, n, 2);
      const Tensor low = device.Empty(1, n, 0, DType::kBF16);
      const Matrix ws = Values(w), gs = Values(g);
      Matrix expected(n);
      for (int64_t i = 0; i < n; ++i) {
        expected[i] = ws[i] - double{0.1f} * (0.5 * gs[i] + (i == 0 ? double{0.2f} : 0.0) * ws[i]);
      }
      device.backend.Sgd({}, {.weights = w,
                              .low = low,
                              .gradients = g,
                              .gradient_scale = device.Filled(1, 1, 0.5f),
                              .decay = {{0, 1, 0.2f}, {1, n - 1, 0.0f}},
                              .learning_rate = 0.1f});
      CHECK(ErrorInEps(w, expected, 0.1) <= 1);
      const Tensor rounded = device.Empty(1, n, 0, DType::kBF16);
      device.backend.Convert({}, w, rounded);
      CHECK(SameBits(low, rounded));
    }
  });
}

}  // namespace
}  // namespace ftune::test
