#include "tests/unit/kernels/kernels.h"

namespace ftune::test {
namespace {

double Silu(double x) { return x / (1 + std::exp(-x)); }

TEST_CASE("SwiGLU and its gradient, apart and in place") {
  ForEachTarget([] {
    Device device;
    for (const int64_t cols : kSizes) {
      for (const float range : {1.0f, 20.0f}) {
        CAPTURE(cols);
        CAPTURE(range);
        const Tensor gate = device.Random(4, cols, 1, 6, range);
        const Tensor up = device.Random(4, cols, 2, 2);
        const Tensor dout = device.Random(4, cols, 3, 4);
        const Matrix g = Values(gate), u = Values(up), d = Values(dout);
        Matrix out(g.size()), dgate(g.size()), dup(g.size());
        for (size_t i = 0; i < g.size(); ++i) {
          const double h = 1e-5;
          out[i] = Silu(g[i]) * u[i];
          dgate[i] = d[i] * u[i] * (Silu(g[i] + h) - Silu(g[i] - h)) / (2 * h);
          dup[i] = d[i] * Silu(g[i]);
        }
        const Tensor y = device.Empty(4, cols);
        device.backend.SwiGluForward({}, gate, up, y);
        CHECK(ErrorInEps(y, out) <= 5);

        const Tensor dg = device.Empty(4, cols, 2), du = device.Empty(4, cols),
                     again = device.Empty(4, cols, 8);
        device.backend.SwiGluBackward({}, dout, gate, up, dg, du, again);
        CHECK(ErrorInEps(dg, dgate, range * 0.5) <= 5);
        CHECK(ErrorInEps(du, dup) <= 5);
        CHECK(SameBits(again, y));

        device.backend.SwiGluBackward({}, dout, gate, up, gate, up, Tensor());
        CHECK(SameBits(gate, dg));
        CHECK(SameBits(up, du));
      }
    }
  });
}

TEST_CASE("SwiGLU of extreme gates") {
  ForEachTarget([] {
    Device device;
    const std::vector<float> gates = {-1000.0f, -100.0f, -88.5f, -30.0f, 0.0f, 30.0f, 88.5f, 100.0f, 1e30f};
    const Tensor gate = device.Empty(1, gates.size());
    std::copy(gates.begin(), gates.end(), gate.f32());
    const Tensor y = device.Empty(1, gates.size());
    device.backend.SwiGluForward({}, gate, device.Filled(1, gates.size(), 1.0f), y);
    for (size_t i = 0; i < gates.size(); ++i) {
      CAPTURE(gates[i]);
      CHECK(std::abs(y.f32()[i] - Silu(gates[i])) <= 4 * kEps * std::abs(Silu(gates[i])) + 1e-35);
    }
    gate.f32()[2] = kNan;
    device.backend.SwiGluForward({}, gate, device.Filled(1, gates.size(), 1.0f), y);
    CHECK(std::isnan(y.f32()[2]));
    CHECK(std::isfinite(y.f32()[1]));
  });
}

}  // namespace
}  // namespace ftune::test
