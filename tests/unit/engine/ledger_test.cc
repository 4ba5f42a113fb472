// The counting backend's ledger against the CPU's: equal to the byte, entry by entry.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/strings.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/engine/tiny.h"

namespace ftune::testing {
namespace {

struct Account {
  MemoryUse current, peak;
  int64_t allocations;
  uint64_t digest;
  double useful_flops, recomputed_flops;
};

Account TrainTwoSteps(Backend& backend, const TinyOptions& options) {
  TinyTrainer trainer(backend, options);
  for (int64_t step = 1; step <= 2; ++step) {
    trainer.Run({MakeBatch({{20, 9, 11}, {33}}, 48, step), MakeBatch({{40}, {}}, 48, 50 + step)}, step,
                1e-3f);
  }
  trainer.step->runner().Evaluate(MakeBatch({{20, 9, 11}, {33}}, 48, 99),
                                  backend.Allocate(DType::kF64, 1, 1, Category::kBuffers));
  return {backend.ledger().current(), backend.ledger().peak(),     backend.ledger().allocations(),
          backend.ledger().digest(),  backend.work().useful_flops, backend.work().recomputed_flops};
}

void CheckMetaEqualsCpu(const TinyOptions& options, int threads) {
  auto cpu = MakeCpu(threads);
  auto meta = MakeMeta(threads);
  const Account want = TrainTwoSteps(*cpu, options);
  const Account got = TrainTwoSteps(*meta, options);
  CHECK(got.current == want.current);
  CHECK(got.peak == want.peak);
  CHECK(got.allocations == want.allocations);
  CHECK(got.digest == want.digest);
  CHECK(got.useful_flops == want.useful_flops);
  CHECK(got.recomputed_flops == want.recomputed_flops);
  CHECK(want.peak[Category::kActivations] > 0);
  CHECK(want.peak[Category::kWeights] > 0);
}

TEST_CASE("meta counts what the CPU allocates") {
  using Mode = RecomputePolicy::Mode;
  for (const bool lora : {false, true}) {
    for (const Mode mode : {Mode::kNone, Mode::kSelective, Mode::kEveryNth}) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        TinyOptions options;
        options.lora = lora;
        if (!lora) options.trainable_dtype = dtype;
        options.step.recompute = {mode, 2};
        options.lora_options.dropout = dtype == DType::kBF16 ? 0.1 : 0.0;
        CheckMetaEqualsCpu(options, 1);
        CheckMetaEqualsCpu(options, 2);
      }
    }
  }
}

TEST_CASE("meta counts what the CPU allocates, for every architecture") {
  using Mode = RecomputePolicy::Mode;
  for (const ModelConfig& config : ArchitectureConfigs()) {
    for (const bool lora : {false, true}) {
      for (const Mode mode : {Mode::kNone, Mode::kSelective, Mode::kEveryNth}) {
        TinyOptions options;
        options.config = config;
        options.lora = lora;
        options.step.recompute = {mode, 2};
        CheckMetaEqualsCpu(options, 2);
      }
    }
  }
}

TEST_CASE("meta counts what the CPU allocates, for every kind of adapter") {
  using Mode = RecomputePolicy::Mode;
  for (TinyOptions options : AdapterOptions()) {
    for (const Mode mode : {Mode::kNone, Mode::kSelective, Mode::kEveryNth}) {
      options.step.recompute = {mode, 2};
      options.lora_options.dropout = mode == Mode::kSelective ? 0.1 : 0.0;
      CheckMetaEqualsCpu(options, 2);
    }
  }
}

TEST_CASE("meta counts quantised bases, and loading them, as the CPU does") {
  for (const DType dtype : {DType::kNF4, DType::kFP4, DType::kInt8}) {
    TinyOptions options;
    options.lora = true;
    options.quantize = dtype;
    CheckMetaEqualsCpu(options, 1);
    CheckMetaEqualsCpu(options, 2);
  }
}

TEST_CASE("meta counts an optimizer on disk as the CPU does, which is less than one in memory") {
  const TempFolder folder;
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kAdamW8bit, OptimizerKind::kMuon}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      TinyOptions options;
      options.trainable_dtype = dtype;
      options.optimizer.kind = kind;
      const auto in_memory = [&] {
        auto meta = MakeMeta();
        return TrainTwoSteps(*meta, options).peak[Category::kOptimizer];
      };
      const int64_t all = in_memory();
      options.offload = {.disk = {.folder = folder.path()}, .piece_bytes = 16384};
      CheckMetaEqualsCpu(options, 1);
      CHECK(in_memory() < all);
    }
  }
}

TEST_CASE("a quantised base takes the memory of its bits, and no more than one wide tensor to make") {
  TinyOptions options;
  options.lora = true;
  int64_t linears = 0, quantized = 0, largest = 0;
  const std::vector<std::string> modules = LinearModules(options.config);
  for (const ParameterShape& p : ModelParameters(options.config)) {
    int64_t count = 1;
    for (const int64_t d : p.shape) count *= d;
    const bool linear = std::any_of(modules.begin(), modules.end(), [&](const std::string& module) {
      return p.name == StrCat(module, ".weight");
    });
    if (!linear) continue;
    linears += count;
    quantized += BytesFor(DType::kNF4, count);
    largest = std::max(largest, count);
  }
  const auto loaded = [&](const std::optional<DType>& quantize) {
    options.quantize = quantize;
    auto cpu = MakeCpu();
    TinyTrainer trainer(*cpu, options);
    return std::pair(cpu->ledger().current()[Category::kWeights], cpu->ledger().peak()[Category::kBuffers]);
  };
  const auto [plain, plain_buffers] = loaded(std::nullopt);
  const auto [small, small_buffers] = loaded(DType::kNF4);
  const auto about = [](int64_t bytes) { return doctest::Approx(static_cast<double>(bytes)).epsilon(0.02); };
  CHECK(static_cast<double>(plain - small) == about(4 * linears - quantized));
  CHECK(small_buffers <= 4 * largest + 3 * 4096);
}

TEST_CASE("meta counts the state and scratch memory of every optimizer") {
  for (const OptimizerKind kind :
       {OptimizerKind::kAdamW, OptimizerKind::kSgd, OptimizerKind::kLion, OptimizerKind::kAdafactor,
        OptimizerKind::kMuon, OptimizerKind::kAdamW8bit}) {
    for (const bool master : {true, false}) {
      TinyOptions options;
      options.optimizer.kind = kind;
      options.optimizer.momentum = 0.9f;
      options.optimizer.master = master;
      options.trainable_dtype = DType::kBF16;
      CheckMetaEqualsCpu(options, 1);
      options.trainable_dtype = DType::kF32;
      options.lora = true;
      CheckMetaEqualsCpu(options, 2);
    }
  }
}

TEST_CASE("optimizers take the memory that they are chosen for") {
  const auto bytes = [](OptimizerOptions optimizer, DType dtype = DType::kF32) {
    TinyOptions options;
    options.config.hidden_size = 192;  // matrices large enough for 8 bits
    options.config.num_heads = 24;
    options.optimizer = optimizer;
    options.trainable_dtype = dtype;
    auto meta = MakeMeta();
    TinyTrainer trainer(*meta, options);
    const MemoryUse& use = meta->ledger().current();
    return static_cast<double>(use[Category::kOptimizer]) /
           static_cast<double>(use[Category::kGradients] / 4);
  };
  CHECK(bytes({}) == doctest::Approx(8).epsilon(0.02));
  CHECK(bytes({}, DType::kBF16) == doctest::Approx(12).epsilon(0.02));
  CHECK(bytes({.master = false}, DType::kBF16) == doctest::Approx(8).epsilon(0.02));
  CHECK(bytes({.kind = OptimizerKind::kSgd}) == 0);
  CHECK(bytes({.kind = OptimizerKind::kSgd, .momentum = 0.9f}) == doctest::Approx(4).epsilon(0.02));
  CHECK(bytes({.kind = OptimizerKind::kLion}) == doctest::Approx(4).epsilon(0.02));
  CHECK(bytes({.kind = OptimizerKind::kAdafactor}) < 0.2);
  CHECK(bytes({.kind = OptimizerKind::kMuon}) < 5);
  CHECK(bytes({.kind = OptimizerKind::kAdamW8bit}) < 2.5);  // k and v are too small for 8 bits
}

TEST_CASE("all memory is given back") {
  auto cpu = MakeCpu();
  { TrainTwoSteps(*cpu, TinyOptions()); }
  const MemoryUse left = cpu->ledger().current();
  for (int i = 0; i < kCategories; ++i) {
    // The backend keeps its scratch memory.
    if (static_cast<Category>(i) != Category::kBuffers) CHECK(left.bytes[i] == 0);
  }
}

// What is alive, as a listener knows it.
class AliveTensors final : public LedgerListener {
 public:
  explicit AliveTensors(Ledger& ledger) : ledger_(ledger) { ledger_.set_listener(this); }
  ~AliveTensors() override { ledger_.set_listener(nullptr); }

  void OnAllocated(int64_t number, Category category, int64_t bytes) override {
    CHECK(number == ledger_.allocations());
    alive_[number] = {category, bytes};
    CHECK(Sum() == ledger_.current());
  }
  void OnFreed(int64_t number) override {
    CHECK(alive_.erase(number) == 1);
    CHECK(Sum() == ledger_.current());
  }

 private:
  MemoryUse Sum() const {
    MemoryUse sum;
    for (const auto& [number, entry] : alive_) sum[entry.first] += entry.second;
    return sum;
  }

  Ledger& ledger_;
  std::map<int64_t, std::pair<Category, int64_t>> alive_;
};

TEST_CASE("a listener hears of each entry, and can tell what is alive") {
  auto meta = MakeMeta();
  const AliveTensors alive(meta->ledger());
  TrainTwoSteps(*meta, TinyOptions());
  CHECK(meta->ledger().allocations() > 100);
}

TEST_CASE("categories hold what they say") {
  TinyOptions options;
  options.trainable_dtype = DType::kBF16;
  auto cpu = MakeCpu();
  TinyTrainer trainer(*cpu, options);
  int64_t parameters = 0;
  for (const ParameterShape& p : ModelParameters(options.config)) {
    int64_t count = 1;
    for (const int64_t d : p.shape) count *= d;
    parameters += count;
  }
  const MemoryUse& use = cpu->ledger().current();
  const auto about = [](int64_t bytes) { return doctest::Approx(static_cast<double>(bytes)).epsilon(0.15); };
  CHECK(static_cast<double>(use[Category::kWeights]) == about(2 * parameters));
  CHECK(static_cast<double>(use[Category::kGradients]) == about(4 * parameters));
  CHECK(static_cast<double>(use[Category::kOptimizer]) == about(12 * parameters));  // master and two moments
}

}  // namespace
}  // namespace ftune::testing
