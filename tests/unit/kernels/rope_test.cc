#include "tests/unit/kernels/kernels.h"

namespace ftune::test {
namespace {

// Cosines and sines of the default frequencies, times `factor`.
Tensor Table(Device& device, int64_t positions, int64_t rotary, double factor) {
  const Tensor table = device.Empty(positions, rotary);
  const int64_t half = rotary / 2;
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = p * std::pow(10000.0, -static_cast<double>(i) / half);
      table.f32()[p * rotary + i] = static_cast<float>(factor * std::cos(angle));
      table.f32()[p * rotary + half + i] = static_cast<float>(factor * std::sin(angle));
    }
  }
  return table;
}

struct Case {
  int64_t head_dim;
  int64_t rotary;
  double factor = 1.0;
};
constexpr Case kCases[] = {{2, 2},   {6, 6},  {16, 16}, {64, 64}, {80, 80},       {128, 96},
                           {80, 20}, {64, 2}, {12, 6},  {7, 4},   {64, 64, 1.19}, {128, 96, 1.19}};

TEST_CASE("rotary embedding by position, and its transpose") {
  ForEachTarget([] {
    Device device;
    for (const auto& [head_dim, rotary, factor] : kCases) {
      CAPTURE(head_dim);
      CAPTURE(rotary);
      CAPTURE(factor);
      const int64_t heads = 3, half = rotary / 2;
      const std::vector<int32_t> positions = {0, 5, 2, 9, 2};
      const Tensor table = Table(device, 10, rotary, factor);
      const Matrix before = Values(device.Random(5, heads * head_dim, 1));
      for (const bool inverse : {false, true}) {
        CAPTURE(inverse);
        const Tensor x = device.Random(5, heads * head_dim, 1, 10);
        Matrix expected = before;
        for (int64_t t = 0; t < 5; ++t) {
          for (int64_t h = 0; h < heads; ++h) {
            for (int64_t i = 0; i < half; ++i) {
              const int64_t a = (t * heads + h) * head_dim + i, b = a + half;
              const double c = table.f32()[positions[t] * rotary + i];
              const double s = table.f32()[positions[t] * rotary + half + i] * (inverse ? -1.0 : 1.0);
              expected[a] = before[a] * c - before[b] * s;
              expected[b] = before[b] * c + before[a] * s;
            }
          }
        }
        device.backend.Rope({}, x, device.Ints(positions), table, head_dim, inverse);
        CHECK(ErrorInEps(x, expected, 1.0) <= 2);
        for (int64_t i = 0; i < x.size(); ++i) {  // to the bit
          if (i % head_dim >= rotary) CHECK(Values(x)[i] == before[i]);
        }
        if (factor != 1.0) continue;
        device.backend.Rope({}, x, device.Ints(positions), table, head_dim, !inverse);
        CHECK(ErrorInEps(x, before, 1.0) <= 4);
      }
    }
  });
}

}  // namespace
}  // namespace ftune::test
