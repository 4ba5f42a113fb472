#include "tests/unit/kernels/kernels.h"

namespace ftune::test {
namespace {

struct Case {
  const char* name;
  AttentionShape shape;
  std::vector<AttentionSegment> segments;
  int64_t tokens_q;
  int64_t tokens_k;
};

AttentionShape Shape(int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t window = 0) {
  return {heads, kv_heads, head_dim, 1.0f / std::sqrt(static_cast<float>(head_dim)), window};
}
AttentionShape CappedShape(int64_t heads, int64_t kv_heads, int64_t head_dim, float softcap,
                           int64_t window = 0) {
  AttentionShape shape = Shape(heads, kv_heads, head_dim, window);
  shape.softcap = softcap;
  return shape;
}
// Segments of these lengths side by side.
std::vector<AttentionSegment> Packed(const std::vector<int32_t>& lengths) {
  std::vector<AttentionSegment> segments;
  int32_t begin = 0;
  for (const int32_t length : lengths) {
    segments.push_back({begin, length, begin, length});
    begin += length;
  }
  return segments;
}

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {"one token", Shape(1, 1, 8), Packed({1}), 1, 1},
      {"small heads", Shape(2, 1, 8), Packed({7}), 7, 7},
      {"grouped", Shape(6, 2, 64), Packed({50}), 50, 50},
      {"odd head size", Shape(2, 2, 20), Packed({33}), 33, 33},
      {"wide heads", Shape(2, 1, 128), Packed({40}), 40, 40},
      {"ragged, with gaps", Shape(4, 2, 16), {{2, 5, 2, 5}, {9, 1, 9, 1}, {10, 130, 10, 130}}, 150, 150},
      {"many short", Shape(3, 1, 16), Packed({1, 2, 3, 17, 95, 96, 97, 64, 31}), 406, 406},
      {"several chunks", Shape(2, 1, 16), Packed({300, 129}), 429, 429},
      {"whole tiles", Shape(2, 1, 16), Packed({256, 128, 264}), 648, 648},
      {"window", Shape(2, 1, 16, 5), Packed({70, 3}), 73, 73},
      {"window across tiles", Shape(2, 2, 16, 140), Packed({400}), 400, 400},
      {"window of one", Shape(1, 1, 16, 1), Packed({150}), 150, 150},
      {"long", Shape(2, 1, 8), Packed({1100}), 1100, 1100},
      {"continued", Shape(4, 2, 16), {{0, 20, 0, 150}, {20, 5, 150, 5}}, 25, 155},
      {"continued, window", Shape(2, 1, 16, 33), {{0, 20, 0, 300}}, 20, 300},
      {"decoding", Shape(6, 2, 64), {{0, 1, 0, 500}}, 1, 500},
      {"decoding, short window", Shape(6, 2, 64, 100), {{0, 1, 0, 500}}, 1, 500},
      {"decoding two", Shape(6, 2, 20), {{0, 1, 0, 77}, {1, 2, 80, 3}}, 3, 90},
      {"capped", CappedShape(6, 2, 20, 2.0f), Packed({50, 3, 130}), 183, 183},
      {"capped high", CappedShape(2, 1, 64, 50.0f), Packed({300}), 300, 300},
      {"capped, window, gaps", CappedShape(2, 1, 16, 3.0f, 33), {{2, 5, 2, 5}, {9, 140, 9, 140}}, 150, 150},
      {"capped, continued", CappedShape(4, 2, 16, 2.0f), {{0, 20, 0, 150}, {20, 5, 150, 5}}, 25, 155},
      {"capped decoding", CappedShape(6, 2, 64, 4.0f), {{0, 1, 0, 500}}, 1, 500},
      {"more queries than keys", Shape(2, 1, 16), {{0, 20, 0, 7}}, 20, 7},
  };
  return cases;
}

struct Expected {
  Matrix out, lse, dq, dk, dv;
};

// Row by row from the definition; gradients by the chain rule through the softmax.
Expected Naive(const Case& c, const Matrix& q, const Matrix& k, const Matrix& v, const Matrix& dout) {
  const AttentionShape& s = c.shape;
  const int64_t d = s.head_dim, q_cols = s.heads * d, k_cols = s.kv_heads * d;
  Expected e{Matrix(q.size(), 0.0), Matrix(c.tokens_q * s.heads, -kInf), Matrix(q.size(), 0.0),
             Matrix(k.size(), 0.0), Matrix(v.size(), 0.0)};
  for (const AttentionSegment& segment : c.segments) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t kv = h / (s.heads / s.kv_heads);
      for (int64_t i = 0; i < segment.q_length; ++i) {
        const int64_t last = i + segment.k_length - segment.q_length;
        if (last < 0) continue;
        const int64_t first = s.window > 0 ? std::max<int64_t>(0, last - s.window + 1) : 0;
        const int64_t row = segment.q_begin + i;
        const double* query = q.data() + row * q_cols + h * d;
        const double* grad = dout.data() + row * q_cols + h * d;
        const auto at = [&](int64_t key) { return (segment.k_begin + key) * k_cols + kv * d; };
        Matrix p, dp, cap_slope;
        double max = -kInf;
        for (int64_t key = first; key <= last; ++key) {
          double score = 0, slope = 0;
          for (int64_t x = 0; x < d; ++x) {
            score += query[x] * k[at(key) + x];
            slope += grad[x] * v[at(key) + x];
          }
          const double tanh = s.softcap != 0 ? std::tanh(score * s.scale / s.softcap) : 0.0;
          p.push_back(s.softcap != 0 ? s.softcap * tanh : score * s.scale);
          cap_slope.push_back(1 - tanh * tanh);
          dp.push_back(slope);
          max = std::max(max, p.back());
        }
        double sum = 0, delta = 0;
        for (double& value : p) sum += value = std::exp(value - max);
        for (size_t j = 0; j < p.size(); ++j) delta += (p[j] /= sum) * dp[j];
        e.lse[row * s.heads + h] = max + std::log(sum);
        for (size_t j = 0; j < p.size(); ++j) {
          const double ds = p[j] * (dp[j] - delta) * s.scale * cap_slope[j];
          for (int64_t x = 0; x < d; ++x) {
            const int64_t key = at(first + j) + x;
            e.out[row * q_cols + h * d + x] += p[j] * v[key];
            e.dv[key] += p[j] * grad[x];
            e.dk[key] += ds * query[x];
            e.dq[row * q_cols + h * d + x] += ds * k[key];
          }
        }
      }
    }
  }
  return e;
}

// Operands as columns of wider tensors, as the model has them, and what both passes made of them.
struct Run {
  Tensor q, k, v, dout, out, lse, dq, dk, dv;

  Run(Device& device, const Case& c, float range = 1.0f) {
    const int64_t q_cols = c.shape.heads * c.shape.head_dim, k_cols = c.shape.kv_heads * c.shape.head_dim;
    q = device.Random(c.tokens_q, q_cols, 1, 6, range);
    k = device.Random(c.tokens_k, k_cols, 2, 10, range);
    v = device.Random(c.tokens_k, k_cols, 3, 2, range);
    dout = device.Random(c.tokens_q, q_cols, 4, 4);
    out = device.Filled(c.tokens_q, q_cols, kNan, 8);
    lse = device.Filled(c.tokens_q, c.shape.heads, kNan);
    dq = device.Filled(c.tokens_q, q_cols, kNan, 2);
    dk = device.Filled(c.tokens_k, k_cols, kNan, 2);
    dv = device.Filled(c.tokens_k, k_cols, kNan, 2);
    device.backend.AttentionForward(
        {}, {.shape = c.shape, .segments = &c.segments, .q = q, .k = k, .v = v, .out = out, .lse = lse});
    device.backend.AttentionBackward({}, {.shape = c.shape,
                                          .segments = &c.segments,
                                          .q = q,
                                          .k = k,
                                          .v = v,
                                          .out = out,
                                          .lse = lse,
                                          .dout = dout,
                                          .dq = dq,
                                          .dk = dk,
                                          .dv = dv});
  }
};

TEST_CASE("attention against its definition") {
  ForEachTarget([] {
    Device device;
    for (const Case& c : Cases()) {
      for (const float range : {1.0f, 12.0f}) {
        const std::string name = c.name;
        CAPTURE(name);
        CAPTURE(range);
        const Run run(device, c, range);
        const Expected e = Naive(c, Values(run.q), Values(run.k), Values(run.v), Values(run.dout));
        // Scores reach range² * dim * scale; exp turns their rounding errors into relative ones.
        const double sharp = range * range;
        CHECK(ErrorInEps(run.out, e.out, range) <= 16 * sharp);
        CHECK(ErrorInEps(run.lse, e.lse, 1.0) <= 16 * sharp);
        CHECK(ErrorInEps(run.dq, e.dq, range) <= 16 * sharp);
        CHECK(ErrorInEps(run.dk, e.dk, range * 4) <= 16 * sharp);
        CHECK(ErrorInEps(run.dv, e.dv, 4.0) <= 16 * sharp);
      }
    }
  });
}

TEST_CASE("attention is the same without lse, and on any number of threads") {
  for (const Case& c : Cases()) {
    const std::string name = c.name;
    CAPTURE(name);
    Device one(1), three(3);
    const Run a(one, c), b(three, c);
    CHECK(SameBits(a.out, b.out));
    CHECK(SameBits(a.lse, b.lse));
    CHECK(SameBits(a.dq, b.dq));
    CHECK(SameBits(a.dk, b.dk));
    CHECK(SameBits(a.dv, b.dv));
    const Tensor out = one.Empty(a.out.rows(), a.out.cols());
    one.backend.AttentionForward(
        {}, {.shape = c.shape, .segments = &c.segments, .q = a.q, .k = a.k, .v = a.v, .out = out});
    CHECK(SameBits(out, a.out));
  }
}

TEST_CASE("a segment in a pack gives the same bits as alone") {
  Device device;
  const AttentionShape shape = Shape(4, 2, 64);
  const Case pack = {"pack", shape, Packed({37, 150, 90}), 277, 277};
  const Run together(device, pack);
  const std::vector<AttentionSegment> lone = {{0, 150, 0, 150}};
  const Tensor out = device.Empty(150, shape.heads * shape.head_dim);
  device.backend.AttentionForward({}, {.shape = shape,
                                       .segments = &lone,
                                       .q = together.q.Rows(37, 150),
                                       .k = together.k.Rows(37, 150),
                                       .v = together.v.Rows(37, 150),
                                       .out = out});
  CHECK(SameBits(out, together.out.Rows(37, 150)));
}

TEST_CASE("what is not a number stays in its segment, and in sight") {
  ForEachTarget([] {
    Device device;
    const AttentionShape shape = Shape(2, 1, 16);
    const std::vector<AttentionSegment> segments = Packed({20, 30});
    const Tensor q = device.Random(50, 32, 1), k = device.Random(50, 16, 2), v = device.Random(50, 16, 3);
    k.f32()[25 * k.stride() + 3] = kNan;
    const Tensor out = device.Empty(50, 32), lse = device.Empty(50, 2);
    device.backend.AttentionForward(
        {}, {.shape = shape, .segments = &segments, .q = q, .k = k, .v = v, .out = out, .lse = lse});
    for (int64_t t = 0; t < 50; ++t) {
      for (int64_t c = 0; c < 32; ++c) CHECK(std::isnan(out.f32()[t * out.stride() + c]) == (t >= 25));
      CHECK(std::isnan(lse.f32()[t * 2]) == (t >= 25));
    }
  });
}

TEST_CASE("no segments: zeros") {
  Device device;
  const std::vector<AttentionSegment> none;
  const Case c = {"none", Shape(2, 1, 16), none, 5, 5};
  const Run run(device, c);
  for (const Tensor& x : {run.out, run.dq, run.dk, run.dv}) {
    CHECK(ErrorInEps(x, Matrix(x.size(), 0.0)) == 0);
  }
}

}  // namespace
}  // namespace ftune::test
