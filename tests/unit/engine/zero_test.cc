// Several ranks train one model: whatever is sharded, they do what one rank does.
#include <doctest/doctest.h>

#include <array>
#include <mutex>

#include "base/error.h"
#include "engine/format/model_tensors.h"
#include "engine/format/ranked_write.h"
#include "engine/train/generate.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/engine/ranks.h"

namespace ftune::testing {
namespace {

constexpr double kTolerance = 1e-5;

// The plan on one rank, which takes all microbatches one after the other.
RunResult TrainOnOne(RunPlan plan) {
  plan.accumulation *= plan.data;
  plan.data = 1;
  plan.options.sharding = {};
  return TrainOnRanks(plan);
}

RunPlan Plan(const TinyOptions& options, int data, int accumulation) {
  RunPlan plan = {.options = options, .data = data, .accumulation = accumulation};
  plan.batch = [=, steps = plan.steps](int step, int microbatch) {
    return UnevenBatch(step, microbatch, steps, data * accumulation);
  };
  return plan;
}

void CheckAgrees(const RunResult& got, const RunResult& want) {
  CHECK(WorstDifference(got, want, &StepOutput::loss) <= kTolerance);
  CHECK(WorstDifference(got, want, &StepOutput::grad_norm) <= kTolerance);
  CHECK(WorstGradientError(got.gradients, want.gradients) <= kTolerance);
  CHECK(WorstGradientError(got.weights, want.weights) <= kTolerance);
}

std::vector<TinyOptions> Models() {
  std::vector<TinyOptions> models;
  for (const bool lora : {false, true}) {
    for (const bool tied : {false, true}) {
      TinyOptions options = Sgd();
      options.lora = lora;
      options.config.tied_head = tied;
      if (lora)
        options.lora_options.target_modules = std::vector<std::string>{"q_proj", "down_proj", "lm_head"};
      models.push_back(options);
    }
  }
  return models;
}

TEST_CASE("ranks of the data axis do what one rank does, whatever they shard") {
  for (const TinyOptions& model : Models()) {
    for (const int data : {2, 3, 4}) {
      for (const int accumulation : {1, 3}) {
        RunPlan plan = Plan(model, data, accumulation);
        const RunResult want = TrainOnOne(plan);
        for (const int zero : {0, 1, 2, 3}) {
          CAPTURE(model.lora);
          CAPTURE(model.config.tied_head);
          CAPTURE(data);
          CAPTURE(accumulation);
          CAPTURE(zero);
          plan.options.sharding.zero = zero;
          CheckAgrees(TrainOnRanks(plan), want);
        }
      }
    }
  }
}

TinyOptions Adam(OptimizerKind kind = OptimizerKind::kAdamW) {
  TinyOptions options;
  options.optimizer = {.kind = kind, .momentum = 0.9f, .weight_decay = 0.1f};
  options.step.max_grad_norm.reset();  // its sum is made in another order
  return options;
}

RunResult TrainWith(RunPlan plan, const ShardOptions& sharding) {
  plan.options.sharding = sharding;
  return TrainOnRanks(plan);
}

void CheckSameBits(const RunResult& got, const RunResult& want) {
  CHECK(WorstDifference(got, want, &StepOutput::loss) == 0.0);
  CHECK(got.gradients == want.gradients);
  CHECK(got.weights == want.weights);
}

TEST_CASE("what is sharded changes no bit, and neither do buckets") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    TinyOptions options = Adam();
    options.config.tied_head = true;
    options.trainable_dtype = dtype;
    options.optimizer.master = false;  // bf16 is rounded at random, keyed by place
    RunPlan plan = Plan(options, 3, 1);
    plan.learning_rate = 1e-2f;
    const RunResult want = TrainWith(plan, {});
    for (const int64_t bucket_bytes : {int64_t{1}, int64_t{20'000}}) {
      CheckSameBits(TrainWith(plan, {.bucket_bytes = bucket_bytes}), want);
    }
    for (const int zero : {1, 2, 3}) CheckSameBits(TrainWith(plan, {.zero = zero}), want);
  }
}

TEST_CASE("with accumulation, stages that sum in the same order agree to the bit") {
  const RunPlan plan = Plan(Adam(), 2, 3);
  CheckSameBits(TrainWith(plan, {.zero = 1}), TrainWith(plan, {}));
  CheckSameBits(TrainWith(plan, {.zero = 3}), TrainWith(plan, {.zero = 2}));
}

TEST_CASE("every optimizer updates shards as it updates the whole, to the bit") {
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kAdamW8bit, OptimizerKind::kMuon,
                                   OptimizerKind::kSgd, OptimizerKind::kLion, OptimizerKind::kAdafactor}) {
    for (const bool master : {true, false}) {
      CAPTURE(static_cast<int>(kind));
      TinyOptions options = Adam(kind);
      options.trainable_dtype = DType::kBF16;
      options.optimizer.master = master;
      // One of the ranks adds nothing: the sums are exactly what the other one has.
      RunPlan plan = Plan(options, 2, 1);
      plan.learning_rate = 1e-2f;
      plan.batch = [](int step, int microbatch) {
        return microbatch == 0 ? UnevenBatch(step, 0, 100, 1) : MakeBatch({{}, {}}, 24, 7);
      };
      RunPlan one = plan;
      one.data = 1;
      const RunResult want = TrainOnRanks(one);
      for (const int zero : {1, 3}) CheckSameBits(TrainWith(plan, {.zero = zero}), want);
    }
  }
}

TEST_CASE("a sharded optimizer's states on disk give the same bits") {
  const TempFolder folder;
  for (const int zero : {1, 3}) {
    RunPlan plan = Plan(Adam(), 2, 1);
    const RunResult want = TrainWith(plan, {.zero = zero});
    plan.options.offload = {.disk = {.folder = folder.path()}, .piece_bytes = 16384};
    CheckSameBits(TrainWith(plan, {.zero = zero}), want);
  }
}

TEST_CASE("copies of shards agree with one rank") {
  for (const bool lora : {false, true}) {
    TinyOptions options = Sgd();
    options.lora = lora;
    options.config.tied_head = !lora;
    const RunPlan plan = Plan(options, 4, 2);
    const RunResult want = TrainOnOne(plan);
    for (const int zero : {1, 2, 3}) {
      CAPTURE(zero);
      CheckAgrees(TrainWith(plan, {.zero = zero, .shard_size = 2}), want);
    }
  }
}

TEST_CASE("clipping, weight decay and frozen blocks are those of one rank") {
  TinyOptions options = Sgd();
  options.step.max_grad_norm = 0.05f;
  options.trainable = [](const std::string& name) {
    return name.starts_with("model.layers.1.") || name.starts_with("lm_head");
  };
  const RunPlan plan = Plan(options, 2, 3);
  const RunResult want = TrainOnOne(plan);
  CHECK(want.steps[0].grad_norm > 0.05);
  for (const int zero : {0, 1, 2, 3}) CheckAgrees(TrainWith(plan, {.zero = zero}), want);
}

TEST_CASE("ZeRO-3 agrees with one rank for adapters on quantised bases, with recomputation") {
  using Mode = RecomputePolicy::Mode;
  for (const bool dora : {false, true}) {
    for (const Mode mode : {Mode::kNone, Mode::kSelective, Mode::kEveryNth}) {
      TinyOptions options = Sgd();
      options.lora = true;
      options.lora_options.dora = dora;
      options.lora_options.dropout = 0.1;
      options.lora_options.target_modules = std::vector<std::string>{"v_proj", "up_proj", "embed_tokens"};
      options.quantize = DType::kNF4;
      options.step.recompute = {mode, 2};
      const RunPlan plan = Plan(options, 2, 2);
      const RunResult want = TrainOnOne(plan);
      for (const int64_t threshold : {0, 100, 300, 100'000}) {
        CheckAgrees(TrainWith(plan, {.zero = 3, .persistence_threshold = threshold}), want);
      }
    }
  }
}

TEST_CASE("small parameters stay whole beside others that are shared out") {
  constexpr int64_t kSmall = 100;  // norms and biases
  TinyOptions options = Sgd();
  options.config.tied_head = true;
  const RunPlan plan = Plan(options, 3, 2);
  CheckAgrees(TrainWith(plan, {.zero = 3, .persistence_threshold = kSmall}), TrainOnOne(plan));

  options.sharding = {.zero = 3, .persistence_threshold = kSmall};
  RunRanks({.data = 3}, [&](Mesh& mesh) {
    const auto backend = MakeCpu();
    TinyTrainer trainer(*backend, options, {}, &mesh);
    for (int step = 1; step <= 2; ++step)
      trainer.RunOf(100, {UnevenBatch(step, mesh.rank(), 100, 3)}, step, 1e-2f);
    double small = 0, large = 0;
    for (const auto& block : trainer.model->blocks()) {
      const int64_t begin = block->store().small_trainable_size();
      for (const Parameter& p : block->store().parameters()) {
        CHECK((p.offset < begin) == (p.size() < kSmall));
        (p.size() < kSmall ? small : large) += static_cast<double>(BytesFor(p.dtype, p.size()));
      }
    }
    CHECK(small > 0);
    // Pages round up; the small ones are there as a whole and, side by side with what is updated, as a share.
    const double blocks = static_cast<double>(trainer.model->blocks().size());
    const double weights = static_cast<double>(backend->ledger().current()[Category::kWeights]);
    CHECK(weights >= small + large / 3);
    CHECK(weights <= small + (small + large) / 3 + 4096 * 2 * blocks + 64 * 4 * blocks);

    // Every rank has the new values of small ones without a use of their block.
    const Parameter* norm = trainer.model->Find("model.layers.1.input_layernorm.weight");
    mesh.axis(MeshAxis::kData).Run(Call::Barrier()).IgnoreError();
    std::vector<float> values = ReadF32(trainer, norm->value);
    std::vector<float> greatest = values;
    CHECK(mesh.world()
              .Run(Call::AllReduce({reinterpret_cast<std::byte*>(greatest.data()), std::ssize(greatest),
                                    DType::kF32, Stream()},
                                   ReduceOp::kMax))
              .ok());
    CHECK(values == greatest);
    CHECK(values[0] != 1.0f);
  });
}

TEST_CASE("gradients that overflow on one rank are skipped on all") {
  TinyOptions options = Adam();
  options.step.loss_scaler = LossScalerOptions{.initial = 1e45, .backoff = 1e-45, .hysteresis = 1};
  RunPlan plan = Plan(options, 2, 1);
  plan.steps = 2;
  plan.batch = [](int step, int microbatch) {
    return microbatch == 0 ? UnevenBatch(step, 0, 100, 1) : MakeBatch({{}, {}}, 24, 7);
  };
  for (const int zero : {0, 2}) {
    const RunResult got = TrainWith(plan, {.zero = zero});
    CHECK(got.steps[0].overflow);
    CHECK_FALSE(got.steps[1].overflow);
    CHECK(got.steps[1].loss_scale == doctest::Approx(1.0));
  }
}

TEST_CASE("one rank that is to stop stops all") {
  for (const auto& output : StepOnTwo([](int rank) {
         return RankStep{InputOf(rank), [rank] { return rank == 1; }};
       })) {
    REQUIRE(output.ok());
    CHECK_FALSE(output->completed);
  }
}

TEST_CASE("ranks that are not at the same step are told so") {
  const auto outputs = StepOnTwo([](int rank) {
    StepInput input = InputOf(rank);
    input.trained_tokens += rank;
    return RankStep{input};
  });
  for (const auto& output : outputs) {
    CHECK(ExitCodeOf(output.status()) == static_cast<int>(ExitCode::kRankFailed));
    CHECK(NotSaid(output.status(), "step 3", "trained tokens", "the same recipe") == "");
  }
}

TEST_CASE("a rank that fails makes the others fail before they update anything") {
  for (const int zero : {0, 1, 2, 3}) {
    RunRanks({.data = 2}, [&](Mesh& mesh) {
      TinyOptions options = Sgd();
      options.sharding.zero = zero;
      const auto backend = MakeCpu();
      TinyTrainer trainer(*backend, options, {}, &mesh);
      const ParameterStore& store = trainer.model->blocks()[1]->store();
      const std::vector<float> before = ReadF32(trainer, store.owned_values());
      REQUIRE(trainer.step->Run(InputOf(mesh.rank()), [] { return false; }).ok());
      const std::vector<float> after = ReadF32(trainer, store.owned_values());
      CHECK(before != after);
      mesh.world().Run(Call::Barrier()).IgnoreError();
      if (mesh.rank() == 1) {
        mesh.world().Abort(absl::InternalError("rank 1 is ill"));
        return;
      }
      const auto output = trainer.step->Run(InputOf(0), [] { return false; });
      CHECK(output.status().message() == "rank 1 is ill");
      CHECK(ReadF32(trainer, store.owned_values()) == after);
    });
  }
}

TEST_CASE("a shard size that does not divide the data axis is refused") {
  RunRanks({.data = 4}, [](Mesh& mesh) {
    const auto groups = DataGroups::Create(mesh, {.zero = 2, .shard_size = 3});
    CHECK(NotSaid(groups.status(), "parallel.shard_size", "3", "a divisor of parallel.data, which is 4") ==
          "");
  });
}

TEST_CASE("evaluation and generation over sharded values are those of one rank") {
  TinyOptions options = Sgd();
  options.config.tied_head = true;
  options.sharding.zero = 3;
  const auto one = MakeCpu();
  TinyTrainer whole(*one, options);
  const Batch batch = UnevenBatch(1, 0, 100, 1);
  const auto evaluate = [&](TinyTrainer& trainer) {
    const Tensor sum = trainer.backend.Allocate(DType::kF64, 1, 1, Category::kBuffers);
    trainer.backend.Zero(Stream(), sum);
    trainer.step->runner().Evaluate(batch, sum);
    double value = 0.0;
    trainer.backend.Download(Stream(), sum, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  };
  const auto generate = [](TinyTrainer& trainer) {
    return *Generate(trainer.backend, Stream(), *trainer.model, 32, {1, 2, 3}, {.max_new_tokens = 20},
                     nullptr);
  };
  const double want = evaluate(whole);
  const std::vector<int32_t> text = generate(whole);
  RunRanks({.data = 3}, [&](Mesh& mesh) {
    const auto backend = MakeCpu();
    TinyTrainer trainer(*backend, options, {}, &mesh);
    CHECK(evaluate(trainer) == want);
    CHECK(generate(trainer) == text);
  });
}

TEST_CASE("what is saved from shards is what one rank saves; a writer that fails fails on all") {
  TinyOptions options = Sgd();
  const auto bytes_of = [](std::span<const OutputTensor> tensors) {
    std::vector<std::pair<std::string, std::vector<std::byte>>> all;
    for (const OutputTensor& tensor : tensors) {
      int64_t count = 1;
      for (const int64_t d : tensor.shape) count *= d;
      all.emplace_back(tensor.name, std::vector<std::byte>(BytesFor(tensor.dtype, count)));
      CHECK(tensor.fill(all.back().second.data()).ok());
    }
    return all;
  };
  const auto one = MakeCpu();
  TinyTrainer whole(*one, options);
  const auto want = bytes_of(ModelTensors(*one, Stream(), *whole.model, DType::kBF16, nullptr));
  for (const int zero : {1, 3}) {
    options.sharding.zero = zero;
    RunRanks({.data = 2}, [&](Mesh& mesh) {
      const auto backend = MakeCpu();
      TinyTrainer trainer(*backend, options, {}, &mesh);
      const auto tensors = ModelTensors(*backend, Stream(), *trainer.model, DType::kBF16, nullptr);
      const auto written = WriteOnFirstRank(mesh.world(), tensors, [&](auto given) {
        CHECK(mesh.rank() == 0);
        CHECK(bytes_of(given) == want);
        return absl::OkStatus();
      });
      CHECK(written.ok());
      const auto failed = WriteOnFirstRank(mesh.world(), tensors, [&](auto given) {
        std::vector<std::byte> first(BytesFor(DType::kBF16, 97 * 48));
        CHECK(given[0].fill(first.data()).ok());
        return absl::InternalError("disk full");
      });
      CHECK(failed.message().find(mesh.rank() == 0 ? "disk full" : "rank 0") != std::string::npos);
    });
  }
}

TEST_CASE("memory of weights, gradients and states falls with the ranks as the formulas say") {
  TinyOptions options = Adam();
  options.config.vocab_size = 1500;
  options.config.hidden_size = 192;
  options.config.intermediate_size = 512;
  options.config.num_heads = 24;
  for (const int data : {2, 4}) {
    const double d = data;
    const std::array<double, 4> formulas = {16, 8 + 8 / d, 4 + 12 / d, 16 / d};
    for (const int zero : {0, 1, 2, 3}) {
      CAPTURE(data);
      CAPTURE(zero);
      options.sharding.zero = zero;
      std::mutex mutex;
      RunRanks({.data = data}, [&](Mesh& mesh) {
        const auto backend = MakeCpu();
        TinyTrainer trainer(*backend, options, {}, &mesh);
        backend->ledger().ResetPeak();
        const Batch batch = UnevenBatch(1, mesh.rank(), 100, data);
        for (int step = 1; step <= 2; ++step) trainer.RunOf(100, {batch}, step, 1e-3f);
        double parameters = 0, window = 0;
        for (const auto& block : trainer.model->blocks()) {
          parameters += static_cast<double>(block->store().trainable_size());
        }
        const auto size = [&](size_t block) {
          return static_cast<double>(trainer.model->blocks()[block]->store().trainable_size());
        };
        // The larger end, and two decoder blocks; values and gradients.
        window = std::max(size(0), size(4)) + size(1) + size(2);
        const double windows = zero == 3 ? 2 : zero == 2 ? 1 : 0;
        const std::lock_guard lock(mutex);
        for (const MemoryUse& use : {backend->ledger().current(), backend->ledger().peak()}) {
          const double state = static_cast<double>(use[Category::kWeights] + use[Category::kGradients] +
                                                   use[Category::kOptimizer]);
          CHECK(state / parameters == doctest::Approx(formulas[zero]).epsilon(0.02));
          CHECK(static_cast<double>(use[Category::kCommunication]) ==
                doctest::Approx(4 * windows * window).epsilon(0.02));
        }
        CHECK(parameters > 1e6);
      });
    }
  }
}

}  // namespace
}  // namespace ftune::testing
