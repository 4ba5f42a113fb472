#include "tests/unit/kernels/kernels.h"

namespace ftune::test {
namespace {

TEST_CASE("rotary embedding by position, and back") {
  ForEachTarget([] {
    Device device;
    for (const int64_t head_dim : {2, 6, 16, 64, 80}) {
      CAPTURE(head_dim);
      const int64_t heads = 3, half = head_dim / 2;
      const std::vector<int32_t> positions = {0, 5, 2, 9, 2};
      const Tensor table = device.Empty(10, head_dim);
      for (int64_t p = 0; p < 10; ++p) {
        for (int64_t i = 0; i < half; ++i) {
          const double angle = p * std::pow(10000.0, -static_cast<double>(i) / half);
          table.f32()[p * head_dim + i] = static_cast<float>(std::cos(angle));
          table.f32()[p * head_dim + half + i] = static_cast<float>(std::sin(angle));
        }
      }
      const Tensor x = device.Random(5, heads * head_dim, 1, 10);
      const Matrix before = Values(x);
      Matrix expected = before;
      for (int64_t t = 0; t < 5; ++t) {
        for (int64_t h = 0; h < heads; ++h) {
          for (int64_t i = 0; i < half; ++i) {
            const int64_t a = (t * heads + h) * head_dim + i, b = a + half;
            const double c = table.f32()[positions[t] * head_dim + i];
            const double s = table.f32()[positions[t] * head_dim + half + i];
            expected[a] = before[a] * c - before[b] * s;
            expected[b] = before[b] * c + before[a] * s;
          }
        }
      }
      device.backend.Rope({}, x, device.Ints(positions), table, head_dim, false);
      CHECK(ErrorInEps(x, expected, 1.0) <= 2);
      device.backend.Rope({}, x, device.Ints(positions), table, head_dim, true);
      CHECK(ErrorInEps(x, before, 1.0) <= 4);
    }
  });
}

}  // namespace
}  // namespace ftune::test
