#include "tests/unit/kernels/kernels.h"

namespace ftune::test {
namespace {

Matrix Product(const MatMulArgs& args, const Matrix& c) {
  const Matrix a = Values(args.a), b = Values(args.b);
  const int64_t m = args.m(), n = args.n(), k = args.k();
  Matrix result(m * n);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) {
        sum += a[args.trans_a ? p * m + i : i * k + p] * b[args.trans_b ? j * k + p : p * n + j];
      }
      result[i * n + j] = args.alpha * sum + (args.beta == 0 ? 0.0 : args.beta * c[i * n + j]);
    }
  }
  return result;
}

// What a sum of `k` products of a's and b's values comes to.
double Magnitude(const MatMulArgs& args) {
  double squares = 0;
  for (const double v : Values(args.b)) squares += v * v;
  return std::sqrt(squares / static_cast<double>(args.b.size()) * static_cast<double>(args.k()));
}

// What the roundings of a sum of `k` products, one after another, may come to, in epsilons of its Magnitude:
// partial sum i is of size sqrt(i / k) and rounded by sqrt(1/12) epsilon of it, so that all are sqrt(k / 24);
// four times that, and four for alpha, beta and the result. Long sums are cut into several, and stay
// below 10.
double BoundOfSums(int64_t k) { return std::min(10.0, 4 + 4 * std::sqrt(static_cast<double>(k) / 24)); }

struct Shape {
  int64_t m, n, k;
};

TEST_CASE("fp32 products of every orientation, strided, with alpha and beta") {
  Device device;
  for (const Shape s : {Shape{1, 1, 1}, Shape{1, 17, 64}, Shape{3, 5, 577}, Shape{4, 33, 17}, Shape{5, 64, 3},
                        Shape{64, 64, 64}, Shape{130, 257, 65}, Shape{577, 16, 300}, Shape{16, 577, 300}}) {
    for (const bool trans_a : {false, true}) {
      for (const bool trans_b : {false, true}) {
        for (const float beta : {0.0f, 1.0f, 0.5f}) {
          CAPTURE(s.m);
          CAPTURE(s.n);
          CAPTURE(s.k);
          CAPTURE(trans_a);
          CAPTURE(trans_b);
          CAPTURE(beta);
          MatMulArgs args = {.a = trans_a ? device.Random(s.k, s.m, 1, 6) : device.Random(s.m, s.k, 1, 6),
                             .trans_a = trans_a,
                             .b = trans_b ? device.Random(s.n, s.k, 2, 4) : device.Random(s.k, s.n, 2, 4),
                             .trans_b = trans_b,
                             .c = device.Random(s.m, s.n, 3, 2),
                             .alpha = 0.7f,
                             .beta = beta};
          const Matrix expected = Product(args, Values(args.c));
          if (beta == 0.0f) {  // what is overwritten must not matter
            for (int64_t i = 0; i < s.m; ++i) std::fill_n(args.c.f32() + i * args.c.stride(), s.n, kNan);
          }
          device.backend.MatMul({}, args);
          CHECK(ErrorInEps(args.c, expected, Magnitude(args)) <= BoundOfSums(s.k));
        }
      }
    }
  }
}

// Such operands are copied a part at a time.
TEST_CASE("fp32 products of operands whose rows are whole pages apart") {
  Device device;
  for (const Shape s : {Shape{512, 1024, 300}, Shape{1024, 7, 600}, Shape{33, 1536, 520}}) {
    for (const bool trans_a : {false, true}) {
      for (const float beta : {0.0f, 0.5f}) {
        CAPTURE(s.m);
        CAPTURE(s.n);
        CAPTURE(s.k);
        CAPTURE(trans_a);
        CAPTURE(beta);
        MatMulArgs args = {.a = trans_a ? device.Random(s.k, s.m, 1) : device.Random(s.m, s.k, 1),
                           .trans_a = trans_a,
                           .b = device.Random(s.k, s.n, 2),
                           .c = device.Random(s.m, s.n, 3, 2),
                           .alpha = 0.7f,
                           .beta = beta};
        const Matrix expected = Product(args, Values(args.c));
        if (beta == 0.0f) {
          for (int64_t i = 0; i < s.m; ++i) std::fill_n(args.c.f32() + i * args.c.stride(), s.n, kNan);
        }
        device.backend.MatMul({}, args);
        CHECK(ErrorInEps(args.c, expected, Magnitude(args)) <= BoundOfSums(s.k));
      }
    }
  }
}

TEST_CASE("products with weights of every type, few rows and many, over several panels") {
  ForEachTarget([] {
    Device device;
    for (const DType type : WeightTypes()) {
      const int64_t cols = BlockSize(type) > 32 ? 2304 : 2080;  // more than a run of the few rows' kernel
      for (const int64_t m : {1, 2, 3, 4, 5, 40}) {
        for (const bool trans_b : {true, false}) {
          CAPTURE(Name(type));
          CAPTURE(m);
          CAPTURE(trans_b);
          const Tensor b = device.RandomWeight(type, 70, cols, 1, Columns(type, 1));
          MatMulArgs args = {.a = device.Random(m, trans_b ? cols : 70, 2, 6),
                             .b = b,
                             .trans_b = trans_b,
                             .c = device.Random(m, trans_b ? 70 : cols, 3, 4),
                             .alpha = 0.5f,
                             .beta = m % 2 == 0 ? 1.0f : 0.0f};
          const Matrix expected = Product(args, Values(args.c));
          device.backend.MatMul({}, args);
          CHECK(ErrorInEps(args.c, expected, Magnitude(args)) <= 8);  // 2304 terms, in one lane at worst
        }
      }
    }
  });
  Device device;
  for (const bool trans_b : {true, false}) {  // 5000 rows of 640 are two panels
    MatMulArgs args = {.a = device.Random(6, trans_b ? 640 : 5000, 2),
                       .b = device.RandomWeight(DType::kBF16, 5000, 640, 1),
                       .trans_b = trans_b,
                       .c = device.Random(6, trans_b ? 5000 : 640, 3),
                       .beta = 0.5f};
    const Matrix expected = Product(args, Values(args.c));
    device.backend.MatMul({}, args);
    CHECK(ErrorInEps(args.c, expected, Magnitude(args)) <= 8);
  }
}

TEST_CASE("products do not depend on the number of threads") {
  for (const Shape s : {Shape{1, 500, 576}, Shape{160, 6000, 576}, Shape{700, 16, 576}, Shape{700, 600, 1000},
                        Shape{60, 100, 30000}}) {
    for (const bool trans_a : {false, true}) {
      for (const DType type : {DType::kF32, DType::kBF16}) {
        if (trans_a && type != DType::kF32) continue;
        CAPTURE(s.m);
        std::vector<Tensor> products;
        Device one(1), three(3);
        for (Device* device : {&one, &three}) {
          const Tensor c = device->Empty(s.m, s.n);
          device->backend.MatMul(
              {}, {.a = trans_a ? device->Random(s.k, s.m, 1) : device->Random(s.m, s.k, 1),
                   .trans_a = trans_a,
                   .b = device->RandomWeight(type, trans_a ? s.k : s.n, trans_a ? s.n : s.k, 2),
                   .trans_b = !trans_a,
                   .c = c});
          products.push_back(c);
        }
        CHECK(SameBits(products[0], products[1]));
      }
    }
  }
}

TEST_CASE("empty products") {
  Device device;
  const Tensor c = device.Filled(0, 8, 1.0f);
  device.backend.MatMul({}, {.a = device.Empty(0, 4), .b = device.Random(8, 4, 1), .trans_b = true, .c = c});
  const Tensor kept = device.Filled(2, 8, 3.0f);  // a sum over nothing, as of an empty pack's weight gradient
  device.backend.MatMul(
      {}, {.a = device.Empty(0, 2), .trans_a = true, .b = device.Empty(0, 8), .c = kept, .beta = 1.0f});
  CHECK(ErrorInEps(kept, Matrix(16, 3.0)) == 0);
  device.backend.MatMul(
      {}, {.a = device.Empty(0, 2), .trans_a = true, .b = device.Empty(0, 8), .c = kept, .beta = 0.0f});
  CHECK(ErrorInEps(kept, Matrix(16, 0.0)) == 0);
}

}  // namespace
}  // namespace ftune::test
