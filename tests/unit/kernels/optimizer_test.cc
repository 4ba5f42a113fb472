// Updates of flat shards against their definitions, element by element, in double.
#include "base/dynamic_map.h"
#include "tests/unit/kernels/kernels.h"

namespace ftune::test {
namespace {

constexpr float kRate = 1e-3f;
constexpr float kDecay = 0.1f;
constexpr float kScale = 0.5f;  // of the gradients
constexpr int64_t kUpdateSizes[] = {1, 3, 255, 257, 4096, 20011};

// Weights [rows, cols] and what they are updated with.
struct Problem {
  Problem(int threads, int64_t rows, int64_t cols, float decay = kDecay)
      : device(threads), weights(device.Random(rows, cols, 1)), scale(device.Filled(1, 1, kScale)) {
    args = {.weights = weights, .gradient_scale = scale, .learning_rate = kRate, .weight_decay = decay};
  }
  Problem(int64_t rows, int64_t cols) : Problem(2, rows, cols) {}

  // The gradients of a step, as given and as the update sees them.
  Matrix NewGradients(int64_t step) {
    args.gradients = device.Random(weights.rows(), weights.cols(), 10 + step);
    Matrix scaled = Values(args.gradients);
    for (double& g : scaled) g *= kScale;
    return scaled;
  }
  Tensor State(int64_t size, DType dtype = DType::kF32) {
    const Tensor state = device.Empty(1, size, 0, dtype);
    device.backend.Zero({}, state);
    return state;
  }

  Device device;
  Tensor weights;
  Tensor scale;
  UpdateArgs args;
};

// Whether a step gives the same bits with one thread and with three.
bool ThreadsDoNotMatter(int64_t rows, int64_t cols,
                        const std::function<void(Problem&, const std::vector<Tensor>&)>& step,
                        const std::vector<int64_t>& state_sizes) {
  std::vector<Tensor> results;
  Problem one(1, rows, cols), three(3, rows, cols);
  for (Problem* p : {&one, &three}) {
    std::vector<Tensor> state;
    for (const int64_t size : state_sizes) state.push_back(p->State(size));
    for (int64_t i = 1; i <= 2; ++i) {
      p->NewGradients(i);
      step(*p, state);
    }
  }
  return SameBits(one.weights, three.weights);
}

struct AdamElement {
  double w, m, v;
  void Step(double g, int64_t step, double decay) {
    const double beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f;
    w *= 1 - double{kRate} * decay;
    m += (1 - beta1) * (g - m);
    v = beta2 * v + (1 - beta2) * g * g;
    const double denominator = std::sqrt(v) / std::sqrt(1 - std::pow(beta2, step)) + eps;
    w -= double{kRate} / (1 - std::pow(beta1, step)) * m / denominator;
  }
};

TEST_CASE("AdamW with decay, scaled gradients and a rounded copy") {
  ForEachTarget([] {
    for (const DType low_type : {DType::kBF16, DType::kF16}) {
      for (const int64_t n : kUpdateSizes) {
        Problem p(1, n);
        const Tensor m = p.State(n), v = p.State(n), low = p.device.Empty(1, n, 0, low_type);
        p.args.low = low;
        std::vector<AdamElement> expected;
        for (const double x : Values(p.weights)) expected.push_back({x, 0, 0});
        for (int64_t step = 1; step <= 5; ++step) {
          const Matrix gs = p.NewGradients(step);
          p.device.backend.AdamW({}, {.update = p.args, .moment1 = m, .moment2 = v, .step = step});
          for (int64_t i = 0; i < n; ++i) expected[i].Step(gs[i], step, kDecay);
        }
        Matrix ws, ms, vs;
        for (const AdamElement& e : expected) {
          ws.push_back(e.w);
          ms.push_back(e.m);
          vs.push_back(e.v);
        }
        CHECK(ErrorInEps(p.weights, ws, 1e-1) <= 4);
        CHECK(ErrorInEps(m, ms, 0.05) <= 4);
        CHECK(ErrorInEps(v, vs) <= 8);
        const Tensor rounded = p.device.Empty(1, n, 0, low_type);
        p.device.backend.Convert({}, p.weights, rounded);
        CHECK(SameBits(low, rounded));
      }
    }
  });
}

TEST_CASE("updates keep a gradient that is not a number in sight") {
  ForEachTarget([] {
    const auto check = [](const std::function<void(Problem&)>& step) {
      Problem p(1, 600);
      p.NewGradients(1);
      p.args.gradients.f32()[7] = kNan;
      step(p);
      for (int64_t i = 0; i < 600; ++i) CHECK(std::isnan(p.weights.f32()[i]) == (i == 7));
    };
    check([](Problem& p) {
      p.device.backend.AdamW({}, {.update = p.args, .moment1 = p.State(600), .moment2 = p.State(600)});
    });
    check([](Problem& p) { p.device.backend.Sgd({}, {.update = p.args}); });
    check([](Problem& p) { p.device.backend.Lion({}, {.update = p.args, .momentum = p.State(600)}); });
    check([](Problem& p) {
      const Tensor scale1 = p.State(3), scale2 = p.State(3);
      p.device.backend.AdamW8bit({}, {.update = p.args,
                                      .moment1 = p.State(600, DType::kU8),
                                      .moment2 = p.State(600, DType::kU8),
                                      .scale1 = scale1,
                                      .scale2 = scale2});
      for (const Tensor& scale : {scale1, scale2}) {
        CHECK(std::isnan(scale.f32()[0]));
        CHECK(std::isfinite(scale.f32()[1]));
      }
    });
  });
}

TEST_CASE("SGD with weight decay in the gradient, with and without momentum") {
  ForEachTarget([] {
    for (const float factor : {0.0f, 0.9f}) {
      for (const int64_t n : kUpdateSizes) {
        Problem p(1, n);
        const Tensor momentum = factor > 0 ? p.State(n) : Tensor();
        Matrix ws = Values(p.weights), ms(n, 0.0);
        for (int64_t step = 1; step <= 3; ++step) {
          const Matrix gs = p.NewGradients(step);
          p.device.backend.Sgd({}, {.update = p.args, .momentum = momentum, .factor = factor});
          for (int64_t i = 0; i < n; ++i) {
            ms[i] = factor * ms[i] + gs[i] + double{kDecay} * ws[i];
            ws[i] -= double{kRate} * ms[i];
          }
        }
        CHECK(ErrorInEps(p.weights, ws, 0.01) <= 2);
        if (factor > 0) CHECK(ErrorInEps(momentum, ms, 0.5) <= 3);
      }
    }
  });
}

TEST_CASE("Lion moves by the sign of the interpolated momentum") {
  ForEachTarget([] {
    const double beta1 = 0.9f, beta2 = 0.99f;
    for (const int64_t n : kUpdateSizes) {
      Problem p(1, n);
      const Tensor momentum = p.State(n);
      Matrix ws = Values(p.weights), ms(n, 0.0);
      for (int64_t step = 1; step <= 4; ++step) {
        p.NewGradients(step);
        p.args.gradients.f32()[0] = 0.0f;  // no gradient at all: only decay
        Matrix gs = Values(p.args.gradients);
        p.device.backend.Lion({}, {.update = p.args, .momentum = momentum});
        for (int64_t i = 0; i < n; ++i) {
          const double g = kScale * gs[i];
          const double c = beta1 * ms[i] + (1 - beta1) * g;
          ws[i] = ws[i] * (1 - double{kRate} * kDecay) - double{kRate} * ((c > 0) - (c < 0));
          ms[i] = beta2 * ms[i] + (1 - beta2) * g;
        }
      }
      CHECK(ErrorInEps(p.weights, ws, 0.01) <= 4);
      CHECK(ErrorInEps(momentum, ms, 0.01) <= 4);
    }
  });
}

// One matrix, or a vector (rows 0), as torch.optim.Adafactor.
struct AdafactorReference {
  int64_t rows, cols;
  Matrix w, row, col;  // of a vector, `col` is the variance

  double RootMean(const Matrix& x) const {
    double sum = 0;
    for (const double v : x) sum += v * v;
    return std::sqrt(sum / static_cast<double>(x.size()));
  }
  void Step(const Matrix& g, int64_t step) {
    const double eps = kEps, share = std::pow(step, double{-0.8f});
    const double alpha = std::max(double{1e-3f}, RootMean(w)) *
                         std::min(double{kRate}, 1 / std::sqrt(static_cast<double>(step)));
    Matrix u(g.size());
    if (rows == 0) {
      for (size_t i = 0; i < g.size(); ++i) {
        col[i] += share * (g[i] * g[i] - col[i]);
        u[i] = g[i] / std::sqrt(std::max(col[i], eps * eps));
      }
    } else {
      Matrix row_mean(rows, 0.0), col_mean(cols, 0.0);
      for (int64_t i = 0; i < rows * cols; ++i) {
        row_mean[i / cols] += g[i] * g[i] / cols;
        col_mean[i % cols] += g[i] * g[i] / rows;
      }
      double mean = 0;
      for (int64_t i = 0; i < rows; ++i) mean += (row[i] += share * (row_mean[i] - row[i])) / rows;
      for (int64_t j = 0; j < cols; ++j) col[j] += share * (col_mean[j] - col[j]);
      for (int64_t i = 0; i < rows * cols; ++i) {
        const double variance = row[i / cols] * col[i % cols] / std::max(mean, eps);
        u[i] = g[i] / std::sqrt(std::max(variance, eps * eps));
      }
    }
    const double size = alpha / std::max(1.0, RootMean(u));
    for (size_t i = 0; i < w.size(); ++i) w[i] = w[i] * (1 - double{kRate} * kDecay) - size * u[i];
  }
};

void CheckAdafactor(int64_t rows, int64_t cols) {
  CAPTURE(rows);
  CAPTURE(cols);
  const bool vector = rows == 0;
  Problem p(vector ? 1 : rows, cols);
  AdafactorReference expected = {rows, cols, Values(p.weights), Matrix(rows, 0.0), Matrix(cols, 0.0)};
  const Tensor row = vector ? Tensor() : p.State(rows), col = p.State(cols);
  for (int64_t step = 1; step <= 4; ++step) {
    const Matrix gs = p.NewGradients(step);
    p.device.backend.Adafactor({}, {.update = p.args,
                                    .row_variance = row,
                                    .col_variance = vector ? Tensor() : col,
                                    .variance = vector ? col : Tensor(),
                                    .step = step});
    expected.Step(gs, step);
  }
  CHECK(ErrorInEps(p.weights, expected.w, 0.01) <= 8);
  CHECK(ErrorInEps(col, expected.col) <= 16);
  if (!vector) CHECK(ErrorInEps(row, expected.row) <= 8);
}

TEST_CASE("Adafactor with a factored variance of matrices and a whole one of vectors") {
  ForEachTarget([] {
    for (const auto& [rows, cols] : {std::pair(1, 1), std::pair(1, 40), std::pair(40, 1), std::pair(7, 33),
                                     std::pair(300, 70), std::pair(3, 5000)}) {
      CheckAdafactor(rows, cols);
    }
    for (const int64_t n : kUpdateSizes) CheckAdafactor(0, n);
  });
}

TEST_CASE("Adafactor of weights and gradients that are zero") {
  Problem p(5, 9);
  p.device.backend.Zero({}, p.weights);
  p.args.gradients = p.device.Filled(5, 9, 0.0f);
  p.device.backend.Adafactor({}, {.update = p.args, .row_variance = p.State(5), .col_variance = p.State(9)});
  CHECK(ErrorInEps(p.weights, Matrix(45, 0.0)) == 0);
}

// op(a) op(b), row-major.
Matrix Product(const Matrix& a, bool trans_a, const Matrix& b, bool trans_b, int64_t m, int64_t n,
               int64_t k) {
  Matrix c(m * n, 0.0);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t l = 0; l < k; ++l) {
        c[i * n + j] += (trans_a ? a[l * m + i] : a[i * k + l]) * (trans_b ? b[j * k + l] : b[l * n + j]);
      }
    }
  }
  return c;
}

// Newton-Schulz on the left: of a tall matrix this is the same polynomial as on its smaller side.
Matrix Orthogonal(Matrix x, int64_t rows, int64_t cols) {
  double norm = 0;
  for (const double v : x) norm += v * v;
  norm = std::max(std::sqrt(norm), 1e-7);
  for (double& v : x) v /= norm;
  for (int step = 0; step < 5; ++step) {
    const Matrix gram = Product(x, false, x, true, rows, rows, cols);
    const Matrix square = Product(gram, false, gram, false, rows, rows, rows);
    Matrix polynomial(rows * rows);
    for (size_t i = 0; i < gram.size(); ++i) polynomial[i] = -4.7750 * gram[i] + 2.0315 * square[i];
    const Matrix change = Product(polynomial, false, x, false, rows, cols, rows);
    for (size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] + change[i];
  }
  return x;
}

TEST_CASE("Muon's momentum, orthogonal update and decay") {
  for (const auto& [rows, cols] :
       {std::pair(1, 1), std::pair(16, 16), std::pair(9, 70), std::pair(130, 24)}) {
    CAPTURE(rows);
    CAPTURE(cols);
    ForEachTarget([rows = rows, cols = cols] {
      const double factor = 0.95f, scale = 3.0;
      Problem p(rows, cols);
      const Tensor momentum = p.State(rows * cols);
      Matrix ws = Values(p.weights), ms(rows * cols, 0.0), ahead(rows * cols);
      for (int64_t step = 1; step <= 2; ++step) {
        const Matrix gs = p.NewGradients(step);
        p.device.backend.Muon(
            {},
            {.update = p.args, .momentum = momentum, .factor = 0.95f, .scale = static_cast<float>(scale)});
        for (size_t i = 0; i < ws.size(); ++i) {
          ms[i] += (1 - factor) * (gs[i] - ms[i]);
          ahead[i] = gs[i] + factor * (ms[i] - gs[i]);
        }
        const Matrix update = Orthogonal(ahead, rows, cols);
        for (size_t i = 0; i < ws.size(); ++i) {
          ws[i] = ws[i] * (1 - double{kRate} * kDecay) - double{kRate} * scale * update[i];
        }
      }
      CHECK(ErrorInEps(p.weights, ws, 0.05) <= 8);
      CHECK(ErrorInEps(momentum, ms, 0.01) <= 4);
    });
  }
}

TEST_CASE("AdamW of 8 bits: moments are coded by the nearest value of the map") {
  ForEachTarget([] {
    for (const int64_t n : kUpdateSizes) {
      Problem p(1, n);
      const int64_t blocks = StateBlocks(n);
      const Tensor m = p.State(n, DType::kU8), v = p.State(n, DType::kU8);
      const Tensor m_scale = p.State(blocks), v_scale = p.State(blocks);
      const DynamicMap &first = DynamicMap::Signed(), &second = DynamicMap::Unsigned();
      std::vector<float> ms(n, 0.0f), vs(n, 0.0f);
      for (int64_t step = 1; step <= 3; ++step) {
        std::vector<AdamElement> expected;
        const Matrix ws = Values(p.weights), gs = p.NewGradients(step);
        for (int64_t i = 0; i < n; ++i) expected.push_back({ws[i], ms[i], vs[i]});
        p.device.backend.AdamW8bit({}, {.update = p.args,
                                        .moment1 = m,
                                        .moment2 = v,
                                        .scale1 = m_scale,
                                        .scale2 = v_scale,
                                        .step = step});
        Matrix want;
        for (int64_t i = 0; i < n; ++i) {
          expected[i].Step(gs[i], step, kDecay);
          want.push_back(expected[i].w);
        }
        CHECK(ErrorInEps(p.weights, want, 1e-1) <= 4);
        // What was coded is as near to the moments as any value of the map.
        const auto check = [&](const DynamicMap& map, const Tensor& codes, const Tensor& scales,
                               double AdamElement::*moment, std::vector<float>& decoded) {
          const auto* code = reinterpret_cast<const uint8_t*>(codes.bytes());
          for (int64_t i = 0; i < n; ++i) {
            const double scale = scales.f32()[i / kStateBlock], exact = expected[i].*moment;
            double nearest = kInf;
            for (const float value : map.values()) {
              nearest = std::min(nearest, std::abs(value * scale - exact));
            }
            decoded[i] = map.values()[code[i]] * scales.f32()[i / kStateBlock];
            if (std::abs(decoded[i] - exact) > nearest + 8 * kEps * scale) FAIL("element " << i);
          }
        };
        check(first, m, m_scale, &AdamElement::m, ms);
        check(second, v, v_scale, &AdamElement::v, vs);
      }
      // The largest of a block is kept as it is: the map ends with 1.
      CHECK(*std::max_element(vs.begin(), vs.begin() + std::min(n, kStateBlock)) == v_scale.f32()[0]);
    }
  });
}

TEST_CASE("random rounding of bf16 weights is one of the two neighbours, and right on average") {
  ForEachTarget([] {
    const int64_t n = 20011;
    Device device;
    // w = 1 + 2^-9: three quarters of the way down from bf16's next number, 1 + 2^-7.
    for (const float sign : {1.0f, -1.0f}) {
      const Tensor w = device.Empty(1, n, 0, DType::kBF16);
      device.backend.Convert({}, device.Filled(1, n, sign), w);
      const Tensor g = device.Filled(1, n, -sign * 0x1p-9f);
      device.backend.Sgd({}, {.update = {.weights = w,
                                         .gradients = g,
                                         .gradient_scale = device.Filled(1, 1, 1.0f),
                                         .learning_rate = 1.0f,
                                         .draws = {.seed = 1, .step = 2, .site = 3}}});
      int64_t up = 0;
      for (const double v : Values(w)) {
        const double size = v * sign;
        REQUIRE((size == 1.0 || size == 1.0 + 0x1p-7));
        up += size > 1.0;
      }
      // Binomial: 4 sigma.
      CHECK(std::abs(up - 0.25 * n) < 4 * std::sqrt(n * 0.25 * 0.75));
    }
  });
}

TEST_CASE("random rounding does not depend on threads, on how a shard is cut, or on the instruction set") {
  const int64_t n = 50021;
  const auto rounded = [&](int threads, const std::vector<int64_t>& cuts, uint64_t step) {
    Device device(threads);
    const Tensor w = device.RandomWeight(DType::kBF16, 1, n, 1), g = device.Random(1, n, 2);
    int64_t begin = 0;
    for (const int64_t end : cuts) {
      device.backend.Sgd({}, {.update = {.weights = w.Cols(begin, end - begin),
                                         .gradients = g.Cols(begin, end - begin),
                                         .gradient_scale = device.Filled(1, 1, 1.0f),
                                         .learning_rate = 1e-2f,
                                         .draws = {.seed = 5, .step = step, .site = 1, .first = begin}}});
      begin = end;
    }
    return Values(w);
  };
  const Matrix want = rounded(1, {n}, 1);
  ForEachTarget([&] {
    CHECK(rounded(3, {n}, 1) == want);
    CHECK(rounded(2, {1, 7, 4099, 20000, n}, 1) == want);
  });
  CHECK(rounded(1, {n}, 2) != want);
}

TEST_CASE("random rounding leaves infinities and NaN") {
  ForEachTarget([] {
    Device device;
    const Tensor w = device.Empty(1, 40, 0, DType::kBF16);
    device.backend.Convert({}, device.Filled(1, 40, 1.0f), w);
    const Tensor g = device.Filled(1, 40, 0.0f);
    g.f32()[3] = kInf;
    g.f32()[4] = -kInf;
    g.f32()[5] = kNan;
    device.backend.Sgd({}, {.update = {.weights = w,
                                       .gradients = g,
                                       .gradient_scale = device.Filled(1, 1, 1.0f),
                                       .learning_rate = 1.0f}});
    const Matrix got = Values(w);
    for (int64_t i = 0; i < 40; ++i) {
      if (i < 3 || i > 5) CHECK(got[i] == 1.0);
    }
    CHECK(got[3] == -double{kInf});
    CHECK(got[4] == double{kInf});
    CHECK(std::isnan(got[5]));
  });
}

TEST_CASE("updates do not depend on the number of threads") {
  const int64_t rows = 190, cols = 333, n = rows * cols;
  CHECK(ThreadsDoNotMatter(rows, cols,
                           [](Problem& p, const std::vector<Tensor>& s) {
                             p.device.backend.AdamW({}, {.update = p.args, .moment1 = s[0], .moment2 = s[1]});
                           },
                           {n, n}));
  CHECK(ThreadsDoNotMatter(rows, cols,
                           [](Problem& p, const std::vector<Tensor>& s) {
                             p.device.backend.Adafactor(
                                 {}, {.update = p.args, .row_variance = s[0], .col_variance = s[1]});
                           },
                           {rows, cols}));
  CHECK(ThreadsDoNotMatter(rows, cols,
                           [](Problem& p, const std::vector<Tensor>& s) {
                             p.device.backend.Muon({}, {.update = p.args, .momentum = s[0]});
                           },
                           {n}));
}

}  // namespace
}  // namespace ftune::test
