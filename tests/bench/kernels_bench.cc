// Rates of the CPU backend's ops at the shapes of SmolLM2-135M, beside the machine's peak of fused
// multiply-adds measured in the same run.
//   kernels_bench [THREADS] [PART-OF-A-NAME]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "engine/backend/cpu/cpu_backend.h"
#include "engine/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/kernels_bench.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ftune::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// `rounds` fused multiply-adds in each of 12 independent sums; returns how many floating-point operations
// that was.
double FmaRounds(int64_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.999f);
  const auto term = hn::Set(d, 1e-3f);
  // Unequal sums: the compiler would do equal ones once.
  const auto start = [d](float i) { return hn::Set(d, i); };
  auto a0 = start(0), a1 = start(1), a2 = start(2), a3 = start(3), a4 = start(4), a5 = start(5);
  auto b0 = start(6), b1 = start(7), b2 = start(8), b3 = start(9), b4 = start(10), b5 = start(11);
  for (int64_t i = 0; i < rounds; ++i) {
    a0 = hn::MulAdd(a0, factor, term);
    a1 = hn::MulAdd(a1, factor, term);
    a2 = hn::MulAdd(a2, factor, term);
    a3 = hn::MulAdd(a3, factor, term);
    a4 = hn::MulAdd(a4, factor, term);
    a5 = hn::MulAdd(a5, factor, term);
    b0 = hn::MulAdd(b0, factor, term);
    b1 = hn::MulAdd(b1, factor, term);
    b2 = hn::MulAdd(b2, factor, term);
    b3 = hn::MulAdd(b3, factor, term);
    b4 = hn::MulAdd(b4, factor, term);
    b5 = hn::MulAdd(b5, factor, term);
  }
  a0 = hn::Add(hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)), hn::Add(a4, a5));
  b0 = hn::Add(hn::Add(hn::Add(b0, b1), hn::Add(b2, b3)), hn::Add(b4, b5));
  *sink += hn::GetLane(hn::SumOfLanes(d, hn::Add(a0, b0)));
  return 2.0 * 12 * static_cast<double>(rounds) * static_cast<double>(hn::Lanes(d));
}

}  // namespace ftune::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ftune {
namespace {

HWY_EXPORT(FmaRounds);

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Timing {
  double best;
  double median;
};
Timing Time(const std::function<void()>& body) {
  constexpr double kSeconds = 0.5;
  constexpr size_t kLeast = 5;
  body();
  std::vector<double> times;
  const double start = Now();
  while (times.size() < kLeast || Now() - start < kSeconds) {
    const double begin = Now();
    body();
    times.push_back(Now() - begin);
  }
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2]};
}

class Bench {
 public:
  Bench(int threads, std::string filter) : backend_({threads}), pool_(threads), filter_(std::move(filter)) {}

  void Run();

 private:
  // GFLOP/s of all threads together; the best of a few slices.
  double Peak() {
    double best = 0;
    for (int slice = 0; slice < 40; ++slice) {
      std::vector<double> rates(pool_.threads());
      pool_.Run(pool_.threads(), [&](int64_t chunk, int) {
        float sink = 0;
        const double begin = Now();
        const double flops = HWY_DYNAMIC_DISPATCH(FmaRounds)(200000, &sink);
        rates[chunk] = sink == 1.25f ? 0 : flops / (Now() - begin) * 1e-9;
      });
      double sum = 0;
      for (const double rate : rates) sum += rate;
      best = std::max(best, sum);
    }
    return best;
  }

  Tensor Random(DType dtype, int64_t rows, int64_t cols) {
    const Tensor x = backend_.Allocate(dtype, rows, cols, Category::kBuffers);
    RandomSequence random(1, 2);
    if (dtype == DType::kF32) {
      for (int64_t i = 0; i < x.size(); ++i) x.f32()[i] = random.Uniform() - 0.5f;
    } else {  // any bits are values, but scales and 16-bit values must not be infinite
      std::memset(x.bytes(), 0x2c, BytesFor(dtype, x.size()));
    }
    return x;
  }
  Tensor Random(int64_t rows, int64_t cols) { return Random(DType::kF32, rows, cols); }

  bool Wanted(const std::string& name) const { return name.find(filter_) != std::string::npos; }

  // One line: rate in GFLOP/s and as a part of the peak.
  void Flops(const std::string& name, double flops, const std::function<void()>& body) {
    if (!Wanted(name)) return;
    const double peak = Peak();
    const Timing t = Time(body);
    std::printf("%-44s %9.3f ms  %7.1f GFLOP/s  %5.1f %% of %.0f (median %.1f %%)\n", name.c_str(),
                t.best * 1e3, flops / t.best * 1e-9, flops / t.best * 1e-7 / peak, peak,
                flops / t.median * 1e-7 / peak);
    std::fflush(stdout);
  }
  void Bytes(const std::string& name, double bytes, const std::function<void()>& body) {
    if (!Wanted(name)) return;
    const Timing t = Time(body);
    std::printf("%-44s %9.3f ms  %7.1f GB/s  (median %.1f)\n", name.c_str(), t.best * 1e3,
                bytes / t.best * 1e-9, bytes / t.median * 1e-9);
    std::fflush(stdout);
  }

  void Product(const char* what, int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b, DType type) {
    const std::string name = std::string("product ") + what + " " + std::to_string(m) + "x" +
                             std::to_string(n) + "x" + std::to_string(k) + " " + std::string(Name(type));
    if (!Wanted(name)) return;
    const Tensor a = trans_a ? Random(k, m) : Random(m, k);
    const Tensor b = trans_b ? Random(type, n, k) : Random(type, k, n);
    const Tensor c = Random(m, n);
    const auto body = [&] {
      backend_.MatMul(
          {},
          {.a = a, .trans_a = trans_a, .b = b, .trans_b = trans_b, .c = c, .beta = trans_a ? 1.0f : 0.0f});
    };
    if (m <= 4) {
      Bytes(name, static_cast<double>(BytesFor(type, n * k)), body);
    } else {
      Flops(name, 2.0 * m * n * k, body);
    }
  }
  void Products();
  void Attention(const char* what, const std::vector<int32_t>& lengths, int32_t queries);
  void ElementWise();

  CpuBackend backend_;
  cpu::ThreadPool pool_;
  std::string filter_;
};

void Bench::Products() {
  for (const int64_t tokens : {512, 2048}) {
    const struct {
      const char* name;
      int64_t out, in;
    } linears[] = {{"qkv", 960, 576}, {"o", 576, 576}, {"gate_up", 3072, 576}, {"down", 576, 1536}};
    for (const auto& linear : linears) {
      const std::string name = linear.name;
      Product((name + " forward").c_str(), tokens, linear.out, linear.in, false, true, DType::kF32);
      Product((name + " dx").c_str(), tokens, linear.in, linear.out, false, false, DType::kF32);
      Product((name + " dw").c_str(), linear.out, linear.in, tokens, true, false, DType::kF32);
    }
    for (const DType type : {DType::kBF16, DType::kQ4_1}) {
      Product("gate_up forward", tokens, 3072, 576, false, true, type);
      Product("gate_up dx", tokens, 576, 3072, false, false, type);
    }
    for (const int64_t rank : {8, 16, 64}) {
      Product("lora xA", tokens, rank, 576, false, true, DType::kF32);
      Product("lora tB", tokens, 1536, rank, false, true, DType::kF32);
      Product("lora dyB", tokens, rank, 1536, false, false, DType::kF32);
      Product("lora dtA", tokens, 576, rank, false, false, DType::kF32);
      Product("lora dA", rank, 576, tokens, true, false, DType::kF32);
      Product("lora dB", 1536, rank, tokens, true, false, DType::kF32);
    }
  }
  for (const DType type : {DType::kF32, DType::kBF16, DType::kQ4_1}) {
    Product("head forward", 160, 49152, 576, false, true, type);
    Product("head dx", 160, 576, 49152, false, false, type);
  }
  Product("head dw", 49152, 576, 160, true, false, DType::kF32);
  for (const DType type :
       {DType::kF32, DType::kBF16, DType::kF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1}) {
    Product("decode", 1, 3072, 576, false, true, type);
    Product("decode head", 1, 49152, 576, false, true, type);
  }
}

void Bench::Attention(const char* what, const std::vector<int32_t>& lengths, int32_t queries) {
  const AttentionShape shape = {.heads = 9, .kv_heads = 3, .head_dim = 64, .scale = 0.125f};
  std::vector<AttentionSegment> segments;
  int32_t keys = 0, rows = 0;
  for (const int32_t length : lengths) {
    const int32_t q = queries > 0 ? queries : length;
    segments.push_back({rows, q, keys, length});
    keys += length;
    rows += q;
  }
  const double flops = 4 * AttentionPairs(segments, 0) * shape.heads * shape.head_dim;
  const Tensor qkv = Random(std::max(keys, rows), 960), dqkv = Random(std::max(keys, rows), 960);
  const Tensor out = Random(rows, 576), dout = Random(rows, 576), lse = Random(rows, 9);
  const Tensor q = qkv.Cols(0, 576).Rows(0, rows), k = qkv.Cols(576, 192), v = qkv.Cols(768, 192);
  Flops(std::string("attention forward ") + what, flops, [&] {
    backend_.AttentionForward(
        {}, {.shape = shape, .segments = &segments, .q = q, .k = k, .v = v, .out = out, .lse = lse});
  });
  if (queries > 0) return;
  Flops(std::string("attention backward ") + what, 2 * flops, [&] {
    backend_.AttentionBackward({}, {.shape = shape,
                                    .segments = &segments,
                                    .q = q,
                                    .k = k,
                                    .v = v,
                                    .out = out,
                                    .lse = lse,
                                    .dout = dout,
                                    .dq = dqkv.Cols(0, 576),
                                    .dk = dqkv.Cols(576, 192),
                                    .dv = dqkv.Cols(768, 192)});
  });
}

void Bench::ElementWise() {
  const int64_t t = 2048, h = 576, f = 1536;
  const Tensor x = Random(t, h), y = Random(t, h), w = Random(1, h), rstd = Random(t, 1), dw = Random(1, h);
  const Tensor gate_up = Random(t, 2 * f), act = Random(t, f);
  const double row_bytes = 4.0 * t * h, act_bytes = 4.0 * t * f;
  Bytes("copy", 2 * row_bytes, [&] { backend_.Convert({}, x, y); });
  Bytes("add", 3 * row_bytes, [&] { backend_.Add({}, x, y); });
  Bytes("norm forward", 2 * row_bytes, [&] { backend_.RmsNormForward({}, x, w, {}, y, rstd); });
  Bytes("norm dx", 4 * row_bytes, [&] { backend_.RmsNormBackwardInput({}, x, x, w, {}, rstd, true, y); });
  Bytes("norm dw", 2 * row_bytes, [&] { backend_.RmsNormBackwardWeight({}, y, x, {}, rstd, dw); });
  Bytes("dropout", 2 * row_bytes, [&] { backend_.Dropout({}, x, {.probability = 0.1f}, false, y); });
  const std::pair<const char*, Activation> activations[] = {
      {"silu", Activation::kSilu}, {"gelu (tanh)", Activation::kGeluTanh}, {"gelu", Activation::kGelu}};
  for (const auto& [name, activation] : activations) {
    const Tensor gate = gate_up.Cols(0, f), up = gate_up.Cols(f, f);
    Bytes(std::string("glu forward ") + name, 3 * act_bytes,
          [&] { backend_.GluForward({}, activation, gate, up, act); });
    Bytes(std::string("glu backward ") + name, 5 * act_bytes,
          [&] { backend_.GluBackward({}, activation, act, gate, up, gate, up, Tensor()); });
  }
  {
    const Tensor qk = Random(t, 960), table = Random(t, 64);
    const Tensor positions = backend_.Allocate(DType::kI32, 1, t, Category::kBuffers);
    for (int64_t i = 0; i < t; ++i) positions.i32()[i] = static_cast<int32_t>(i);
    Bytes("rope", 2 * 4.0 * t * 768,
          [&] { backend_.Rope({}, qk.Cols(0, 768), positions, table, 64, false); });
  }
  {
    const Tensor logits = Random(160, 49152), loss = backend_.Allocate(DType::kF64, 1, 1, Category::kBuffers);
    const Tensor labels = backend_.Allocate(DType::kI32, 1, 160, Category::kBuffers);
    for (int64_t i = 0; i < 160; ++i) labels.i32()[i] = static_cast<int32_t>(i * 300);
    backend_.Zero({}, loss);
    Bytes("cross-entropy with gradient", 3 * 4.0 * 160 * 49152, [&] {
      backend_.CrossEntropy({}, {.logits = logits, .labels = labels, .gradient = true, .loss = loss});
    });
  }
  {
    const int64_t n = int64_t{16} << 20;
    const Tensor weights = Random(1, n), gradients = Random(1, n), m = Random(1, n), v = Random(1, n);
    const Tensor scale = Random(1, 1), sum = backend_.Allocate(DType::kF64, 1, 1, Category::kBuffers);
    for (int64_t i = 0; i < n; ++i) v.f32()[i] = 0.25f;
    const UpdateArgs update = {.weights = weights,
                               .gradients = gradients,
                               .gradient_scale = scale,
                               .learning_rate = 1e-4f,
                               .weight_decay = 0.01f};
    Bytes("AdamW", 7 * 4.0 * n, [&] { backend_.AdamW({}, {.update = update, .moment1 = m, .moment2 = v}); });
    const Tensor codes1 = backend_.Allocate(DType::kU8, 1, n, Category::kBuffers);
    const Tensor codes2 = backend_.Allocate(DType::kU8, 1, n, Category::kBuffers);
    const Tensor scale1 = Random(1, StateBlocks(n)), scale2 = Random(1, StateBlocks(n));
    for (const Tensor& state : {codes1, codes2, scale1, scale2}) backend_.Zero({}, state);
    Bytes("AdamW, 8-bit moments", (3 * 4.0 + 4) * n, [&] {
      backend_.AdamW8bit(
          {}, {.update = update, .moment1 = codes1, .moment2 = codes2, .scale1 = scale1, .scale2 = scale2});
    });
    Bytes("Lion", 5 * 4.0 * n, [&] { backend_.Lion({}, {.update = update, .momentum = m}); });
    const Tensor bf16 = Random(DType::kBF16, 1, n);
    Bytes("Lion on bf16 without a master", (3 * 4.0 + 4) * n, [&] {
      UpdateArgs rounded = update;
      rounded.weights = bf16;
      backend_.Lion({}, {.update = rounded, .momentum = m});
    });
    backend_.Zero({}, sum);
    Bytes("sum of squares", 4.0 * n, [&] { backend_.SumSquares({}, gradients, sum); });
    for (const DType type : {DType::kBF16, DType::kF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1}) {
      const Tensor from = Random(type, 1, n);
      Bytes("dequantise " + std::string(Name(type)) + " (bytes of fp32)", 4.0 * n,
            [&] { backend_.Convert({}, from, weights); });
    }
  }
}

void Bench::Run() {
  std::printf("fma_peak_gflops %.1f (%d threads)\n", Peak(), pool_.threads());
  Products();
  Attention("512", {512}, 0);
  Attention("2048", {2048}, 0);
  Attention("16 x 128", std::vector<int32_t>(16, 128), 0);
  Attention("10 x 50..200", {50, 200, 120, 77, 180, 64, 90, 150, 133, 96}, 0);
  Attention("decode, 2048 keys", {2048}, 1);
  Attention("decode, 256 keys", {256}, 1);
  ElementWise();
}

}  // namespace
}  // namespace ftune

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  if (threads < 1) {
    std::fprintf(stderr, "usage: kernels_bench [THREADS] [PART-OF-A-NAME]\n");
    return 2;
  }
  ftune::Bench(threads, argc > 2 ? argv[2] : "").Run();
  return 0;
}
#endif
