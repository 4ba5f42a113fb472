// What must not change the numbers: how a batch is split or packed, what is recomputed, when weights'
// gradients are made, and how many threads run.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/unit/engine/tiny.h"

namespace ftune::testing {
namespace {

constexpr double kRounding = 5e-6;  // some 40 epsilons of f32, on norms

struct Result {
  double loss;
  double norm;
  NamedGradients gradients;
};

Result RunOnce(const TinyOptions& options, const std::vector<Batch>& batches, int threads = 1) {
  auto backend = MakeCpu(threads);
  TinyTrainer trainer(*backend, options);
  const StepOutput output = trainer.Run(batches);
  REQUIRE(output.completed);
  return {output.loss, output.grad_norm, trainer.Gradients()};
}

void CheckEqual(const Result& got, const Result& want, double tolerance = kRounding) {
  CHECK(std::abs(got.loss - want.loss) <= tolerance * std::abs(want.loss));
  CHECK(WorstGradientError(got.gradients, want.gradients) <= tolerance);
}

std::vector<TinyOptions> Variants() {
  TinyOptions full, lora, tied, biased, windowed, frozen;
  lora.lora = true;
  tied.config.tied_head = true;
  biased.config.qkv_bias = biased.config.output_bias = biased.config.mlp_bias = true;
  windowed.config.layer_window = {0, 5, 9};
  frozen.trainable = [](const std::string& name) { return name.find("layers.1.") != std::string::npos; };
  TinyOptions smoothed;
  smoothed.step.label_smoothing = 0.1f;
  std::vector<TinyOptions> variants = {full, lora, tied, biased, windowed, frozen, smoothed};
  for (const ModelConfig& config : ArchitectureConfigs()) {
    for (const bool with_lora : {false, true}) {
      variants.emplace_back().config = config;
      variants.back().lora = with_lora;
    }
  }
  for (const TinyOptions& adapter : AdapterOptions()) variants.push_back(adapter);
  return variants;
}

const std::vector<std::vector<int>> kPacks = {{20, 9, 11}, {33}};

TEST_CASE("a batch gives the same gradient whatever the microbatches") {
  std::vector<TinyOptions> variants = Variants();
  variants.emplace_back().step.neftune_alpha = 5.0f;
  for (const TinyOptions& options : variants) {
    const Batch whole = MakeBatch({{20, 9}, {31}, {12, 12}, {7}}, 32, 5);
    std::vector<Batch> parts;
    for (int64_t pack = 0; pack < whole.packs; ++pack) {
      Batch part;
      part.packs = 1;
      part.capacity = whole.capacity;
      part.first_token = pack * whole.capacity;
      const auto slice = [&](const std::vector<int32_t>& v) {
        return std::vector<int32_t>(v.begin() + pack * 32, v.begin() + (pack + 1) * 32);
      };
      part.ids = slice(whole.ids);
      part.positions = slice(whole.positions);
      part.labels = slice(whole.labels);
      for (const Segment& s : whole.segments) {
        if (s.begin / 32 == pack)
          part.segments.push_back({static_cast<int32_t>(s.begin - pack * 32), s.length});
      }
      for (const int32_t label : part.labels) part.trained_tokens += label != kIgnoreLabel;
      parts.push_back(part);
    }
    CheckEqual(RunOnce(options, parts), RunOnce(options, {whole}));
  }
}

void CheckDropoutOfMicrobatches(TinyOptions options) {
  options.lora_options.dropout = 0.3;
  const Batch first = MakeBatch({{30}}, 32, 8, 0);
  const Batch second = MakeBatch({{25}}, 32, 9, 32);
  Batch whole = first;
  whole.packs = 2;
  for (auto [to, from] : {std::pair{&whole.ids, &second.ids}, std::pair{&whole.positions, &second.positions},
                          std::pair{&whole.labels, &second.labels}}) {
    to->insert(to->end(), from->begin(), from->end());
  }
  whole.segments.push_back({32, 25});
  whole.trained_tokens += second.trained_tokens;
  const Result want = RunOnce(options, {whole});
  CheckEqual(RunOnce(options, {first, second}), want);

  TinyOptions without = options;
  without.lora_options.dropout = 0.0;
  CHECK(std::abs(RunOnce(without, {whole}).loss - want.loss) > 1e-4);
}

TEST_CASE("dropout draws do not depend on the split into microbatches") {
  TinyOptions lora;
  lora.lora = true;
  CheckDropoutOfMicrobatches(lora);
  for (const bool dora : {false, true}) {
    // The head sees only the trained rows of a batch.
    lora.lora_options.target_modules = std::vector<std::string>{"q_proj", "lm_head"};
    lora.lora_options.dora = dora;
    CheckDropoutOfMicrobatches(lora);
  }
}

TEST_CASE("packed samples give what lone samples give") {
  for (const TinyOptions& options : Variants()) {
    const Batch packed = MakeBatch({{20, 9, 11}}, 48, 5);
    std::vector<Batch> lone;
    for (const Segment& s : packed.segments) {
      Batch batch;
      batch.packs = 1;
      batch.capacity = s.length;
      batch.ids.assign(packed.ids.begin() + s.begin, packed.ids.begin() + s.begin + s.length);
      batch.positions.assign(packed.positions.begin() + s.begin,
                             packed.positions.begin() + s.begin + s.length);
      batch.labels.assign(packed.labels.begin() + s.begin, packed.labels.begin() + s.begin + s.length);
      batch.segments = {{0, s.length}};
      for (const int32_t label : batch.labels) batch.trained_tokens += label != kIgnoreLabel;
      lone.push_back(batch);
    }
    CheckEqual(RunOnce(options, lone), RunOnce(options, {packed}));
  }
}

TEST_CASE("activation checkpointing does not change gradients, and saves memory") {
  using Mode = RecomputePolicy::Mode;
  for (TinyOptions options : Variants()) {
    const Batch batch = MakeBatch(kPacks, 64, 6);
    const Result want = RunOnce(options, {batch});
    for (const RecomputePolicy checkpointing :
         {RecomputePolicy{Mode::kSelective, 1}, RecomputePolicy{Mode::kEveryNth, 1},
          RecomputePolicy{Mode::kEveryNth, 2}}) {
      options.step.recompute = checkpointing;
      CheckEqual(RunOnce(options, {batch}), want, 1e-7);
    }
  }
  const auto peak = [](RecomputePolicy checkpointing) {
    TinyOptions options;
    options.step.recompute = checkpointing;
    auto backend = MakeCpu();
    TinyTrainer trainer(*backend, options);
    trainer.Run({MakeBatch(kPacks, 64, 6)});
    return backend->ledger().peak()[Category::kActivations];
  };
  const int64_t none = peak({Mode::kNone, 1});
  CHECK(peak({Mode::kSelective, 1}) < none);
  CHECK(peak({Mode::kEveryNth, 1}) < peak({Mode::kEveryNth, 2}));
  CHECK(peak({Mode::kEveryNth, 2}) < none);
}

TEST_CASE("the second half of backward may run later") {
  using Mode = RecomputePolicy::Mode;
  for (const TinyOptions& options : Variants()) {
    for (const Mode mode : {Mode::kNone, Mode::kSelective, Mode::kEveryNth}) {
      const std::vector<Batch> batches = {MakeBatch(kPacks, 48, 6), MakeBatch({{40}}, 48, 7)};
      const int64_t trained = batches[0].trained_tokens + batches[1].trained_tokens;
      const auto gradients = [&](const std::vector<Action>& actions) {
        auto backend = MakeCpu();
        TinyTrainer trainer(*backend, options);
        Runner runner(*backend, Stream(), *trainer.model, {mode, 1});
        const Tensor loss = backend->Allocate(DType::kF64, 1, 1, Category::kBuffers);
        backend->Zero(Stream(), loss);
        REQUIRE(
            runner.Run(actions, batches,
                       {.seed = 1, .step = 1, .loss_scale = 1.0f / static_cast<float>(trained), .loss = loss},
                       [] { return false; }));
        return trainer.Gradients();
      };
      using enum ActionKind;
      const std::vector<Action> whole = {
          {kForward, 0, 0}, {kBackward, 0, 0}, {kForward, 0, 1}, {kBackward, 0, 1}};
      const auto split = gradients({{kForward, 0, 0},
                                    {kForward, 0, 1},
                                    {kBackwardInput, 0, 0},
                                    {kBackwardInput, 0, 1},
                                    {kBackwardWeight, 0, 0},
                                    {kBackwardWeight, 0, 1}});
      CHECK(WorstGradientError(split, gradients(whole)) <= 1e-7);
    }
  }
}

TEST_CASE("the number of threads does not change a bit") {
  for (const TinyOptions& options : Variants()) {
    const Batch batch = MakeBatch(kPacks, 64, 6);
    const Result one = RunOnce(options, {batch}, 1);
    const Result two = RunOnce(options, {batch}, 2);
    CHECK(one.loss == two.loss);
    CHECK(one.gradients == two.gradients);
  }
}

TEST_CASE("a repeated run is bit-equal") {
  TinyOptions options;
  options.lora = true;
  options.lora_options.dropout = 0.1;
  const Batch batch = MakeBatch(kPacks, 64, 6);
  const Result a = RunOnce(options, {batch}, 2);
  const Result b = RunOnce(options, {batch}, 2);
  CHECK(a.loss == b.loss);
  CHECK(a.gradients == b.gradients);
}

TEST_CASE("an empty pack, and tokens that do not count, change nothing") {
  TinyOptions options;
  const Batch batch = MakeBatch({{20, 9}}, 32, 5);
  const Batch with_empty = MakeBatch({{20, 9}, {}}, 32, 5);
  CheckEqual(RunOnce(options, {with_empty}), RunOnce(options, {batch}));
}

}  // namespace
}  // namespace ftune::testing
