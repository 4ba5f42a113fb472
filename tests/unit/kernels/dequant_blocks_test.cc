// Tensors of the types that are quantised as a whole (NF4, FP4, int8): views, products and conversions equal
// the scalar reference's values.
#include "base/block_quant.h"
#include "tests/unit/kernels/kernels.h"

namespace ftune::test {
namespace {

constexpr DType kTypes[] = {DType::kNF4, DType::kFP4, DType::kInt8};

Tensor Quantized(Device& device, DType dtype, int64_t rows, int64_t cols, uint64_t seed) {
  const Tensor from = device.Random(rows, cols, seed);
  const Tensor to = device.backend.Allocate(dtype, rows, cols, Category::kWeights);
  const Tensor scales =
      device.backend.Allocate(1, BlockQuantLayout(dtype, rows * cols).blocks, Category::kBuffers);
  device.backend.Quantize({}, from, to, scales);
  return to;
}

// All values, row-major.
std::vector<float> Reference(const Tensor& whole) {
  std::vector<float> values(whole.size());
  DequantizeRange(whole.dtype(), whole.bytes(), whole.size(), 0, whole.size(), values.data());
  return values;
}

bool SameBits(const float* a, const float* b, int64_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

TEST_CASE("quantised bytes are the reference's, with any number of threads") {
  for (const DType dtype : kTypes) {
    for (const int64_t rows : {int64_t{1}, int64_t{45}, int64_t{300}}) {
      const int64_t cols = 170;
      Device one(1), three(3);
      const Tensor a = Quantized(one, dtype, rows, cols, 4);
      const Tensor b = Quantized(three, dtype, rows, cols, 4);
      const int64_t bytes = BytesFor(dtype, rows * cols);
      CHECK(std::memcmp(a.bytes(), b.bytes(), bytes) == 0);

      const Tensor from = one.Random(rows, cols, 4);
      const BlockQuantLayout layout(dtype, rows * cols);
      std::vector<std::byte> want(bytes);
      std::vector<float> scales(layout.blocks);
      QuantizeBlocks(dtype, {from.f32(), static_cast<size_t>(from.size())}, 0, layout.blocks, want.data(),
                     scales.data());
      QuantizeScales(dtype, rows * cols, scales, want.data());
      CHECK(std::memcmp(a.bytes(), want.data(), bytes) == 0);
    }
  }
}

TEST_CASE("conversion to fp32, bf16 and fp16 of views equals the reference on every target") {
  ForEachTarget([] {
    Device device;
    for (const DType dtype : kTypes) {
      for (const int64_t cols : {int64_t{1}, int64_t{50}, int64_t{64}, int64_t{130}, int64_t{3000}}) {
        const int64_t rows = 41;
        CAPTURE(Name(dtype));
        CAPTURE(cols);
        const Tensor whole = Quantized(device, dtype, rows, cols, 2);
        const std::vector<float> want = Reference(whole);
        const Tensor all = device.Empty(rows, cols);
        device.backend.Convert({}, whole, all);
        CHECK(SameBits(all.f32(), want.data(), whole.size()));

        const Tensor some = device.Empty(7, cols, 3);
        device.backend.Convert({}, whole.Rows(11, 7), some);
        for (int64_t r = 0; r < 7; ++r) {
          CHECK(SameBits(some.f32() + r * some.stride(), &want[(11 + r) * cols], cols));
        }
        const int64_t skip = cols / 3;
        const Tensor columns = device.Empty(rows, cols - skip);
        device.backend.Convert({}, whole.Cols(skip, cols - skip), columns);
        for (int64_t r = 0; r < rows; ++r) {
          CHECK(SameBits(columns.f32() + r * columns.stride(), &want[r * cols + skip], cols - skip));
        }
        for (const DType narrow : {DType::kBF16, DType::kF16}) {
          const Tensor rounded = device.Empty(rows, cols, 0, narrow);
          device.backend.Convert({}, whole, rounded);
          std::vector<std::byte> bytes(BytesFor(narrow, whole.size()));
          ConvertFromF32(narrow, want.data(), whole.size(), bytes.data());
          CHECK(std::memcmp(rounded.bytes(), bytes.data(), bytes.size()) == 0);
        }
      }
    }
  });
}

TEST_CASE("products and rows of quantised tensors are those of their values") {
  ForEachTarget([] {
    Device device;
    for (const DType dtype : kTypes) {
      for (const int64_t cols : {int64_t{50}, int64_t{192}, int64_t{2080}}) {
        const int64_t rows = 70;
        CAPTURE(Name(dtype));
        CAPTURE(cols);
        const Tensor quantised = Quantized(device, dtype, rows, cols, 5);
        const Tensor plain = device.Empty(rows, cols);
        device.backend.Convert({}, quantised, plain);
        for (const int64_t m : {1, 3, 40}) {
          for (const bool trans_b : {true, false}) {
            CAPTURE(m);
            CAPTURE(trans_b);
            const Tensor a = device.Random(m, trans_b ? cols : rows, 6, 2);
            const Tensor got = device.Empty(m, trans_b ? rows : cols);
            const Tensor want = device.Empty(m, trans_b ? rows : cols);
            device.backend.MatMul({}, {.a = a, .b = quantised, .trans_b = trans_b, .c = got});
            device.backend.MatMul({}, {.a = a, .b = plain, .trans_b = trans_b, .c = want});
            double worst = 0;
            for (int64_t i = 0; i < got.size(); ++i) {
              worst = std::max(worst, std::abs(static_cast<double>(got.f32()[i]) - want.f32()[i]));
            }
            CHECK(worst <= 32 * kEps * std::sqrt(static_cast<double>(trans_b ? cols : rows)));
            // Rows of the weight: what a shard of its outputs computes.
            if (!trans_b) continue;
            const Tensor part = device.Empty(m, 20);
            device.backend.MatMul({}, {.a = a, .b = quantised.Rows(13, 20), .trans_b = true, .c = part});
            for (int64_t r = 0; r < m; ++r) {
              for (int64_t c = 0; c < 20; ++c) {
                CHECK(part.f32()[r * 20 + c] ==
                      doctest::Approx(want.f32()[r * rows + 13 + c]).epsilon(1e-4).scale(1.0));
              }
            }
          }
        }
        const Tensor looked_up = device.Empty(3, cols);
        device.backend.EmbeddingForward({}, device.Ints({69, 0, 12}), quantised, 0, looked_up);
        CHECK(SameBits(looked_up.f32() + 2 * cols, plain.f32() + 12 * cols, cols));
        CHECK(SameBits(looked_up.f32(), plain.f32() + 69 * cols, cols));
      }
    }
  });
}

}  // namespace
}  // namespace ftune::test
