#include "tests/unit/kernels/kernels.h"

namespace ftune::test {
namespace {

constexpr DType kFloats[] = {DType::kF32, DType::kF16, DType::kBF16};

TEST_CASE("conversion between plain types equals the scalar reference to the bit") {
  ForEachTarget([] {
    Device device;
    for (const DType from : kFloats) {
      for (const DType to : kFloats) {
        for (const int64_t cols : kSizes) {
          CAPTURE(Name(from));
          CAPTURE(Name(to));
          CAPTURE(cols);
          const Tensor x = device.RandomWeight(from, 3, cols, cols, 5);
          const Tensor y = device.Empty(3, cols, 7, to);
          device.backend.Convert({}, x, y);
          for (int64_t r = 0; r < 3; ++r) {
            std::vector<float> values(cols);
            std::vector<std::byte> expected(BytesFor(to, cols));
            ConvertToF32(from, x.bytes() + BytesFor(from, r * x.stride()), cols, values.data());
            ConvertFromF32(to, values.data(), cols, expected.data());
            CHECK(std::memcmp(y.bytes() + BytesFor(to, r * y.stride()), expected.data(), expected.size()) ==
                  0);
          }
        }
      }
    }
  });
}

TEST_CASE("all 65536 bit patterns of the 16-bit types convert as the reference, and back") {
  ForEachTarget([] {
    Device device;
    for (const DType type : {DType::kF16, DType::kBF16}) {
      const Tensor all = device.Empty(1, 65536, 0, type);
      for (int i = 0; i < 65536; ++i) reinterpret_cast<uint16_t*>(all.bytes())[i] = static_cast<uint16_t>(i);
      const Tensor wide = device.Empty(1, 65536);
      const Tensor back = device.Empty(1, 65536, 0, type);
      device.backend.Convert({}, all, wide);
      device.backend.Convert({}, wide, back);
      int wrong = 0;
      for (int i = 0; i < 65536; ++i) {
        float expected;
        ConvertToF32(type, all.bytes() + 2 * i, 1, &expected);
        const float found = wide.f32()[i];
        if (std::isnan(expected)) {
          float again;
          ConvertToF32(type, back.bytes() + 2 * i, 1, &again);
          wrong += !std::isnan(found) || !std::isnan(again);
        } else {
          wrong += std::memcmp(&expected, &found, 4) != 0 ||
                   std::memcmp(all.bytes() + 2 * i, back.bytes() + 2 * i, 2);
        }
      }
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("rounding to 16 bits: ties to even, overflow to infinity, subnormals, NaN") {
  ForEachTarget([] {
    Device device;
    std::vector<float> values = {1.0f + 0x1p-8f,
                                 1.0f + 0x1.8p-7f,
                                 1.0f + 0x1p-11f,
                                 1.0f + 0x1.8p-10f,
                                 65519.0f,
                                 65520.0f,
                                 -65536.0f,
                                 3.4e38f,
                                 0x1p-24f,
                                 0x1p-25f,
                                 0x1.8p-25f,
                                 0x1p-140f,
                                 -0.0f,
                                 kInf,
                                 -kInf,
                                 kNan,
                                 0.1f,
                                 -3.3f};
    RandomSequence random(3, 3);
    for (int i = 0; i < 4096; ++i) {
      values.push_back(std::ldexp(random.Uniform() - 0.5f, static_cast<int>(random.Below(40)) - 28));
    }
    const Tensor x = device.Empty(1, values.size());
    std::copy(values.begin(), values.end(), x.f32());
    for (const DType type : {DType::kF16, DType::kBF16}) {
      const Tensor y = device.Empty(1, values.size(), 0, type);
      device.backend.Convert({}, x, y);
      int wrong = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        uint16_t expected, found;
        ConvertFromF32(type, &values[i], 1, reinterpret_cast<std::byte*>(&expected));
        std::memcpy(&found, y.bytes() + 2 * i, 2);
        if (std::isnan(values[i])) {
          wrong += !std::isnan(type == DType::kF16 ? HalfToFloat(found) : Bf16ToFloat(found));
        } else {
          wrong += expected != found;
        }
      }
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("quantised types convert to fp32 as the scalar reference, to the bit") {
  ForEachTarget([] {
    Device device;
    for (const DType type : kQuantizedTypes) {
      for (const int64_t blocks : {1, 3, 65}) {
        const int64_t cols = Columns(type, blocks);
        CAPTURE(Name(type));
        CAPTURE(cols);
        const Tensor x = device.RandomWeight(type, 5, cols, cols, Columns(type, 2));
        const Tensor y = device.Empty(5, cols, 3);
        device.backend.Convert({}, x, y);
        std::vector<float> expected(cols);
        for (int64_t r = 0; r < 5; ++r) {
          ConvertToF32(type, x.bytes() + BytesFor(type, r * x.stride()), cols, expected.data());
          CHECK(std::memcmp(y.f32() + r * y.stride(), expected.data(), cols * 4) == 0);
        }
      }
    }
  });
}

TEST_CASE("a strided copy leaves the gaps alone") {
  Device device;
  const Tensor all = device.Filled(4, 40, 7.0f);
  device.backend.Convert({}, device.Filled(4, 20, 1.0f), all.Cols(10, 20));
  device.backend.Zero({}, all.Cols(35, 2));
  for (int64_t r = 0; r < 4; ++r) {
    for (int64_t c = 0; c < 40; ++c) {
      const float expected = c >= 10 && c < 30 ? 1.0f : c >= 35 && c < 37 ? 0.0f : 7.0f;
      CHECK(all.f32()[r * 40 + c] == expected);
    }
  }
}

TEST_CASE("zero, add, scale and bias") {
  ForEachTarget([] {
    Device device;
    for (const int64_t cols : {int64_t{1}, int64_t{3}, int64_t{17}, int64_t{577}, int64_t{20000}}) {
      for (const int64_t gap : {0, 6}) {
        CAPTURE(cols);
        CAPTURE(gap);
        const Tensor x = device.Random(5, cols, 1, gap);
        const Tensor y = device.Random(5, cols, 2, gap);
        Matrix expected = Values(y);
        const Matrix xs = Values(x);
        for (size_t i = 0; i < expected.size(); ++i) expected[i] += xs[i];
        device.backend.Add({}, x, y);
        CHECK(ErrorInEps(y, expected) <= 0.5);

        for (double& v : expected) v *= -0.3f;
        device.backend.Scale({}, y, -0.3f);
        CHECK(ErrorInEps(y, expected) <= 1.1);

        for (const DType type : kFloats) {
          const Tensor bias = device.RandomWeight(type, 1, cols, 3);
          const Tensor z = device.Random(5, cols, 4, gap);
          Matrix sums = Values(z);
          const Matrix b = Values(bias);
          for (int64_t i = 0; i < 5 * cols; ++i) sums[i] += b[i % cols];
          device.backend.AddBias({}, bias, z);
          CHECK(ErrorInEps(z, sums) <= 0.5);
        }
        device.backend.Zero({}, y);
        CHECK(ErrorInEps(y, Matrix(5 * cols, 0.0)) == 0.0);
      }
    }
  });
}

TEST_CASE("soft cap") {
  ForEachTarget([] {
    Device device;
    for (const int64_t cols : kSizes) {
      for (const float range : {0.01f, 1.0f, 30.0f, 1000.0f}) {
        CAPTURE(cols);
        CAPTURE(range);
        const Tensor x = device.Random(3, cols, 1, 6, range);
        Matrix expected = Values(x);
        for (double& value : expected) value = 30 * std::tanh(value / 30);
        device.backend.SoftCap({}, 30.0f, x);
        CHECK(ErrorInEps(x, expected) <= 4);
      }
    }
    const Tensor x = device.Empty(1, 5);
    const float values[] = {kInf, -kInf, 1e30f, 0.0f, kNan};
    std::copy_n(values, 5, x.f32());
    device.backend.SoftCap({}, 30.0f, x);
    CHECK(ErrorInEps(x.Cols(0, 4), {30, -30, 30, 0}) <= 1);
    CHECK(std::isnan(x.f32()[4]));
  });
}

TEST_CASE("columns scaled, apart and in place") {
  ForEachTarget([] {
    Device device;
    for (const int64_t cols : kSizes) {
      CAPTURE(cols);
      const Tensor x = device.Random(5, cols, 1, 6), factor = device.Random(1, cols, 2);
      const Tensor y = device.Empty(5, cols, 2);
      const Matrix factors = Values(factor);
      Matrix expected = Values(x);
      for (size_t i = 0; i < expected.size(); ++i) expected[i] *= factors[i % cols];
      device.backend.ColumnScale({}, factor, x, y);
      CHECK(ErrorInEps(y, expected) <= 0.5);
      device.backend.ColumnScale({}, factor, x, x);
      CHECK(SameBits(x, y));
    }
  });
}

}  // namespace
}  // namespace ftune::test
