#include <numbers>

#include "tests/unit/kernels/kernels.h"

namespace ftune::test {
namespace {

constexpr Activation kActivations[] = {Activation::kSilu, Activation::kGeluTanh, Activation::kGelu};

double Value(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kGeluTanh: {
      // 0.5 (1 + tanh(u)) = 1 / (1 + e^-2u), which keeps its digits where tanh is near -1.
      const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return x / (1 + std::exp(-2 * u));
    }
    case Activation::kGelu:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
  }
  return 0;
}
double Slope(Activation activation, double x) {
  const double h = 1e-5;
  return (Value(activation, x + h) - Value(activation, x - h)) / (2 * h);
}

TEST_CASE("gated activations and their gradients, apart and in place") {
  ForEachTarget([] {
    Device device;
    for (const Activation activation : kActivations) {
      for (const int64_t cols : kSizes) {
        for (const float range : {1.0f, 6.0f, 20.0f}) {
          CAPTURE(static_cast<int>(activation));
          CAPTURE(cols);
          CAPTURE(range);
          const Tensor gate = device.Random(4, cols, 1, 6, range);
          const Tensor up = device.Random(4, cols, 2, 2);
          const Tensor dout = device.Random(4, cols, 3, 4);
          const Matrix g = Values(gate), u = Values(up), d = Values(dout);
          Matrix out(g.size()), dgate(g.size()), dup(g.size());
          for (size_t i = 0; i < g.size(); ++i) {
            out[i] = Value(activation, g[i]) * u[i];
            dgate[i] = d[i] * u[i] * Slope(activation, g[i]);
            dup[i] = d[i] * Value(activation, g[i]);
          }
          const Tensor y = device.Empty(4, cols);
          device.backend.GluForward({}, activation, gate, up, y);
          CHECK(ErrorInEps(y, out, 0.05) <= 5);

          const Tensor dg = device.Empty(4, cols, 2), du = device.Empty(4, cols),
                       again = device.Empty(4, cols, 8);
          device.backend.GluBackward({}, activation, dout, gate, up, dg, du, again);
          CHECK(ErrorInEps(dg, dgate, 0.5) <= 5);
          CHECK(ErrorInEps(du, dup, 0.05) <= 5);
          CHECK(SameBits(again, y));

          device.backend.GluBackward({}, activation, dout, gate, up, gate, up, Tensor());
          CHECK(SameBits(gate, dg));
          CHECK(SameBits(up, du));
        }
      }
    }
  });
}

TEST_CASE("activations without a gate, apart and in place") {
  ForEachTarget([] {
    Device device;
    for (const Activation activation : kActivations) {
      for (const int64_t cols : kSizes) {
        CAPTURE(static_cast<int>(activation));
        CAPTURE(cols);
        const Tensor x = device.Random(5, cols, 1, 6, 5.0f);
        const Tensor dout = device.Random(5, cols, 3, 4);
        const Matrix xs = Values(x), d = Values(dout);
        Matrix out(xs.size()), dx_expected(xs.size());
        for (size_t i = 0; i < xs.size(); ++i) {
          out[i] = Value(activation, xs[i]);
          dx_expected[i] = d[i] * Slope(activation, xs[i]);
        }
        const Tensor y = device.Empty(5, cols, 2);
        device.backend.ActivationForward({}, activation, x, y);
        CHECK(ErrorInEps(y, out, 0.05) <= 4);
        const Tensor dx = device.Empty(5, cols, 8), again = device.Empty(5, cols);
        device.backend.ActivationBackward({}, activation, dout, x, dx, again);
        CHECK(ErrorInEps(dx, dx_expected, 0.5) <= 5);
        CHECK(SameBits(again, y));

        const Tensor over_dout = device.Copy(dout), over_x = device.Copy(x), in_place = device.Copy(x);
        device.backend.ActivationBackward({}, activation, over_dout, x, over_dout, Tensor());
        CHECK(SameBits(over_dout, dx));
        device.backend.ActivationBackward({}, activation, dout, over_x, over_x, Tensor());
        CHECK(SameBits(over_x, dx));
        device.backend.ActivationForward({}, activation, in_place, in_place);
        CHECK(SameBits(in_place, y));
      }
    }
  });
}

// Away from 0 every value has a few units of error only; in the lower tail that of the exponent, which grows
// with it.
TEST_CASE("activations are exact to a few ulps from the tails to zero") {
  ForEachTarget([] {
    Device device;
    for (const Activation activation : kActivations) {
      CAPTURE(static_cast<int>(activation));
      const int64_t count = 19001;
      const Tensor x = device.Empty(1, count), y = device.Empty(1, count);
      for (int64_t i = 0; i < count; ++i) x.f32()[i] = static_cast<float>(i - 9500) * 1e-3f;
      device.backend.ActivationForward({}, activation, x, y);
      double above = 0, below = 0;
      for (int64_t i = 0; i < count; ++i) {
        const double expected = Value(activation, x.f32()[i]);
        const double size = std::abs(expected) + std::numeric_limits<float>::min();
        const double error = std::abs(y.f32()[i] - expected) / (kEps * size);
        double& worst = x.f32()[i] > -1 ? above : below;
        worst = std::max(worst, error);
      }
      CHECK(above <= 4);
      CHECK(below <= 90);
    }
  });
}

TEST_CASE("activations of extreme inputs") {
  ForEachTarget([] {
    Device device;
    const std::vector<float> inputs = {-1e30f, -1000.0f, -100.0f, -88.5f, -30.0f, 0.0f,
                                       30.0f,  88.5f,    100.0f,  1e30f,  kNan};
    const int64_t count = inputs.size();
    for (const Activation activation : kActivations) {
      CAPTURE(static_cast<int>(activation));
      const Tensor x = device.Empty(1, count), y = device.Empty(1, count), dx = device.Empty(1, count);
      std::copy(inputs.begin(), inputs.end(), x.f32());
      device.backend.GluForward({}, activation, x, device.Filled(1, count, 1.0f), y);
      device.backend.ActivationBackward({}, activation, device.Filled(1, count, 1.0f), x, dx, Tensor());
      for (int64_t i = 0; i + 1 < count; ++i) {
        CAPTURE(inputs[i]);
        const double limit = inputs[i] > 0 ? inputs[i] : inputs[i] == -30.0f ? Value(activation, -30.0) : 0.0;
        CHECK(std::abs(y.f32()[i] - limit) <= 100 * kEps * std::abs(limit) + 1e-35);
        const double slope = inputs[i] == 0.0f ? 0.5 : inputs[i] > 0 ? 1.0 : 0.0;
        CHECK(std::abs(dx.f32()[i] - slope) <= 1e-11);
      }
      CHECK(std::isnan(y.f32()[count - 1]));
      CHECK(std::isnan(dx.f32()[count - 1]));
    }
  });
}

}  // namespace
}  // namespace ftune::test
