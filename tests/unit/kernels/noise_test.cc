#include "tests/unit/kernels/kernels.h"

namespace ftune::test {
namespace {

constexpr uint64_t kSeed = 0x123456789abcdefull;
constexpr int64_t kFirst = (int64_t{1} << 33) + 5;

NoiseArgs Args(const Tensor& amplitudes) {
  return {.amplitudes = amplitudes, .seed = kSeed, .step = 7, .site = 12, .first_token = kFirst};
}

TEST_CASE("noise draws what its coordinates say; rows of amplitude 0 stay") {
  ForEachTarget([] {
    Device device;
    for (const int64_t cols : kSizes) {
      CAPTURE(cols);
      const Tensor x = device.Random(4, cols, 1, 2), amplitudes = device.Empty(1, 4);
      const float sizes[] = {0.5f, 0.0f, 0.01f, 3.0f};
      std::copy_n(sizes, 4, amplitudes.f32());
      Matrix expected = Values(x);
      const auto words = Philox(kSeed, 7, 12);
      for (int64_t t = 0; t < 4; ++t) {
        for (int64_t c = 0; c < cols; ++c) {
          const auto block = Philox(uint64_t{words[1]} << 32 | words[0], kFirst + t, c / 4);
          expected[t * cols + c] += sizes[t] * (2.0 * UniformFloat(block[c % 4]) - 1.0);
        }
      }
      const Tensor before = device.Copy(x);
      device.backend.UniformNoise({}, Args(amplitudes), x);
      CHECK(ErrorInEps(x, expected, 1.0) <= 1);
      CHECK(SameBits(x.Rows(1, 1), before.Rows(1, 1)));
    }
  });
}

TEST_CASE("any split of the rows and any threads draw the same noise; step, site and seed draw anew") {
  Device device, three(3);
  const Tensor amplitudes = device.Random(1, 64, 9);
  const auto noise = [&](Device& on, const NoiseArgs& args) {
    const Tensor x = on.Filled(64, 100, 0.0f);
    on.backend.UniformNoise({}, args, x);
    return x;
  };
  const Tensor whole = noise(device, Args(amplitudes));
  CHECK(SameBits(whole, noise(three, Args(amplitudes))));
  const Tensor split = device.Filled(64, 100, 0.0f);
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 1}, {1, 20}, {20, 64}}) {
    NoiseArgs args = Args(amplitudes.Cols(begin, end - begin));
    args.first_token += begin;
    device.backend.UniformNoise({}, args, split.Rows(begin, end - begin));
  }
  CHECK(SameBits(whole, split));
  for (const int which : {0, 1, 2}) {
    NoiseArgs args = Args(amplitudes);
    (which == 0 ? args.step : which == 1 ? args.site : args.seed) += 1;
    CHECK_FALSE(SameBits(whole, noise(device, args)));
  }
}

TEST_CASE("noise is uniform: its mean, its spread and its ends") {
  Device device;
  const Tensor x = device.Filled(1000, 1000, 0.0f);
  device.backend.UniformNoise({}, Args(device.Filled(1, 1000, 2.0f)), x);
  double sum = 0, squares = 0, least = 0, most = 0;
  for (const double v : Values(x)) {
    sum += v;
    squares += v * v;
    least = std::min(least, v);
    most = std::max(most, v);
  }
  CHECK(std::abs(sum / 1e6) <= 5 * 2 / std::sqrt(3 * 1e6));
  CHECK(squares / 1e6 == doctest::Approx(4.0 / 3).epsilon(0.005));
  CHECK(least >= -2.0);
  CHECK(least < -1.999);
  CHECK(most < 2.0);
  CHECK(most > 1.999);
}

}  // namespace
}  // namespace ftune::test
