#include "tests/unit/kernels/kernels.h"

namespace ftune::test {
namespace {

const DropoutArgs kArgs = {.probability = 0.3f,
                           .seed = 0x123456789abcdefull,
                           .step = 7,
                           .site = 12,
                           .first_token = (int64_t{1} << 33) + 5};

// As draws.h states it.
bool Kept(const DropoutArgs& args, int64_t row, int64_t column) {
  const auto words = Philox(args.seed, args.step, args.site);
  const auto block = Philox(uint64_t{words[1]} << 32 | words[0], args.first_token + row, column / 4);
  return UniformFloat(block[column % 4]) >= args.probability;
}

TEST_CASE("dropout draws what its coordinates say") {
  ForEachTarget([] {
    Device device;
    for (const int64_t cols : kSizes) {
      CAPTURE(cols);
      const Tensor x = device.Random(6, cols, 1, 2);
      const Tensor y = device.Random(6, cols, 2, 6);
      const Matrix xs = Values(x);
      Matrix expected(xs.size()), sums = Values(y);
      for (int64_t i = 0; i < 6 * cols; ++i) {
        expected[i] =
            Kept(kArgs, i / cols, i % cols) ? xs[i] / (1 - static_cast<double>(kArgs.probability)) : 0.0;
        sums[i] += expected[i];
      }
      device.backend.Dropout({}, x, kArgs, true, y);
      CHECK(ErrorInEps(y, sums, 1.0) <= 2);
      device.backend.Dropout({}, x, kArgs, false, y);
      CHECK(ErrorInEps(y, expected) <= 2);
    }
  });
}

TEST_CASE("any split of the rows draws the same; step, site and seed draw anew") {
  Device device;
  const Tensor ones = device.Filled(64, 100, 1.0f);
  const Tensor whole = device.Empty(64, 100), split = device.Empty(64, 100), other = device.Empty(64, 100);
  device.backend.Dropout({}, ones, kArgs, false, whole);
  for (const int64_t begin : {0, 1, 20}) {
    const int64_t end = begin == 0 ? 1 : begin == 1 ? 20 : 64;
    DropoutArgs args = kArgs;
    args.first_token += begin;
    device.backend.Dropout({}, ones.Rows(begin, end - begin), args, false, split.Rows(begin, end - begin));
  }
  CHECK(SameBits(whole, split));
  for (const int which : {0, 1, 2}) {
    DropoutArgs args = kArgs;
    (which == 0 ? args.step : which == 1 ? args.site : args.seed) += 1;
    device.backend.Dropout({}, ones, args, false, other);
    CHECK_FALSE(SameBits(whole, other));
  }
}

TEST_CASE("any split of the columns draws the same") {
  ForEachTarget([] {
    Device device;
    const Tensor ones = device.Filled(5, 211, 1.0f);
    const Tensor whole = device.Empty(5, 211);
    device.backend.Dropout({}, ones, kArgs, false, whole);
    for (const int64_t begin : {1, 2, 3, 4, 37, 64, 130}) {
      CAPTURE(begin);
      DropoutArgs args = kArgs;
      args.first_column = begin;
      const Tensor part = device.Empty(5, 211 - begin);
      device.backend.Dropout({}, ones.Cols(begin, 211 - begin), args, false, part);
      CHECK(SameBits(whole.Cols(begin, 211 - begin), part));
    }
  });
}

TEST_CASE("dropout drops as often as it is told") {
  Device device;
  const Tensor ones = device.Filled(1000, 1000, 1.0f);
  const Tensor y = device.Empty(1000, 1000);
  for (const float p : {0.0f, 0.05f, 0.5f}) {
    DropoutArgs args = kArgs;
    args.probability = p;
    device.backend.Dropout({}, ones, args, false, y);
    int64_t dropped = 0;
    for (const double v : Values(y)) dropped += v == 0.0;
    CHECK(std::abs(dropped / 1e6 - p) <= 5 * std::sqrt(p * (1 - p) / 1e6));
  }
}

}  // namespace
}  // namespace ftune::test
