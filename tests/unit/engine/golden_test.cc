// The engine against PyTorch, transformers and peft: a tiny random model of every family, full and LoRA, f32.
// The values were made by tests/golden/make_golden.py, which computes each sample alone; here they are
// packed.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "base/safetensors.h"
#include "base/strings.h"
#include "engine/format/loaded_model.h"
#include "engine/optim/lr_schedule.h"
#include "engine/train/generate.h"
#include "tests/unit/engine/tiny.h"

namespace ftune::testing {
namespace {

constexpr double kGradientError = 1e-5;
constexpr double kEpsilon = std::numeric_limits<float>::epsilon();

std::string Golden(const std::string& path) { return StrCat(FTUNE_SOURCE_DIR, "/tests/golden/", path); }

class Fixture {
 public:
  explicit Fixture(const std::string& name) {
    auto file = SafetensorsFile::Open(Golden(StrCat("fixtures/", name, ".safetensors")));
    REQUIRE_MESSAGE(file.ok(), std::string(file.status().message()));
    file_ = std::make_unique<SafetensorsFile>(*std::move(file));
  }
  bool Has(const std::string& name) const { return file_->Find(name) != nullptr; }
  template <typename T>
  std::vector<T> Get(const std::string& name) const {
    const SafetensorsEntry* entry = file_->Find(name);
    REQUIRE_MESSAGE(entry != nullptr, name);
    std::vector<T> values(entry->bytes.size() / sizeof(T));
    std::memcpy(values.data(), entry->bytes.data(), entry->bytes.size());
    return values;
  }

 private:
  std::unique_ptr<SafetensorsFile> file_;
};

std::vector<Batch> GoldenBatches() {
  const Fixture fixture("batches");
  const auto ids = fixture.Get<int32_t>("batches.ids");
  const auto positions = fixture.Get<int32_t>("batches.positions");
  const auto labels = fixture.Get<int32_t>("batches.labels");
  const int64_t packs = fixture.Get<int32_t>("batches.packs")[0];
  const int64_t capacity = fixture.Get<int32_t>("batches.capacity")[0];
  const int64_t tokens = packs * capacity;
  std::vector<Batch> batches(ids.size() / tokens);
  for (size_t i = 0; i < batches.size(); ++i) {
    const auto slice = [&](const std::vector<int32_t>& v) {
      return std::vector<int32_t>(v.begin() + i * tokens, v.begin() + (i + 1) * tokens);
    };
    Batch& batch = batches[i];
    batch.packs = packs;
    batch.capacity = capacity;
    batch.ids = slice(ids);
    batch.positions = slice(positions);
    batch.labels = slice(labels);
    const auto segments = fixture.Get<int32_t>(StrCat("batches.segments.", i));
    for (size_t s = 0; s < segments.size(); s += 2) batch.segments.push_back({segments[s], segments[s + 1]});
    for (const int32_t label : batch.labels) batch.trained_tokens += label != kIgnoreLabel;
  }
  return batches;
}

// A model of the golden set with its optimizer and step.
struct GoldenRun {
  GoldenRun(const std::string& name, bool lora, const OptimizerOptions& optimizer_options,
            std::optional<float> max_grad_norm)
      : backend(MakeCpu(1)) {
    LoadModelOptions options;
    options.max_length = 64;
    options.trainable = [lora](const std::string&) { return !lora; };
    if (lora) options.lora_folder = Golden(StrCat("models/", name, "-lora"));
    auto opened = LoadModel(*backend, Stream(), Golden(StrCat("models/", name)), options);
    REQUIRE_MESSAGE(opened.ok(), std::string(opened.status().message()));
    loaded = *std::move(opened);
    optimizer = std::make_unique<Optimizer>(*backend, Stream(), *loaded.model, optimizer_options);
    loaded.model->AllocateGradients(*backend, Stream());
    step = std::make_unique<TrainStep>(*backend, Stream(), *loaded.model, *optimizer,
                                       TrainStep::Options{.max_grad_norm = max_grad_norm});
  }

  StepOutput Run(const Batch& batch, int64_t number, double learning_rate) {
    return step->Run({.step = number,
                      .microbatches = {batch},
                      .trained_tokens = batch.trained_tokens,
                      .learning_rate = static_cast<float>(learning_rate)},
                     [] { return false; });
  }
  std::vector<float> Read(const Tensor& tensor) {
    std::vector<float> values(tensor.size());
    backend->Download(Stream(), tensor, std::as_writable_bytes(std::span(values)));
    return values;
  }
  // What `tensor_of` gives for each trainable parameter.
  NamedGradients Values(const std::function<Tensor(Parameter&)>& tensor_of) {
    NamedGradients all;
    for (Parameter* p : loaded.model->parameters()) {
      if (p->trainable) all.emplace_back(p->name, Read(tensor_of(*p)));
    }
    return all;
  }

  std::unique_ptr<CpuBackend> backend;
  LoadedModel loaded;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<TrainStep> step;
};

NamedGradients Expected(const Fixture& fixture, const std::string& prefix, const NamedGradients& like) {
  NamedGradients all;
  for (const auto& [name, values] : like) all.emplace_back(name, fixture.Get<float>(StrCat(prefix, name)));
  return all;
}

void CheckClose(double got, double want, double epsilons, const std::string& what) {
  INFO(what, ": got ", got, ", want ", want);
  CHECK(std::abs(got - want) <= epsilons * kEpsilon * std::max(1.0, std::abs(want)));
}

struct Case {
  std::string model;
  bool lora;
  std::string prefix() const { return lora ? "lora." : "full."; }
};

std::vector<Case> Cases() {
  // All of them: those with a fixture, a model and an adapter of one name.
  std::vector<Case> cases;
  for (const auto& entry : std::filesystem::directory_iterator(Golden("models"))) {
    const std::string model = entry.path().filename();
    const bool whole = std::filesystem::exists(Golden(StrCat("models/", model, "-lora"))) &&
                       std::filesystem::exists(Golden(StrCat("fixtures/", model, ".safetensors")));
    if (!whole) continue;
    cases.push_back({model, false});
    if (model != "gemma3-wrapper" && !model.starts_with("gpt2")) cases.push_back({model, true});
  }
  std::sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) { return a.model < b.model; });
  REQUIRE(cases.size() >= 50);
  return cases;
}

TEST_CASE("logits equal transformers'") {
  const std::vector<Batch> batches = GoldenBatches();
  for (const Case& c : Cases()) {
    CAPTURE(c.model);
    CAPTURE(c.lora);
    const Fixture fixture(c.model);
    GoldenRun run(c.model, c.lora, {}, std::nullopt);
    const std::vector<float> want = fixture.Get<float>(c.prefix() + "logits");
    const int64_t vocab = run.loaded.files.config.vocab_size;
    double worst = 0.0, largest = 0.0;
    for (const Segment& s : batches[0].segments) {
      const std::vector<int32_t> ids(batches[0].ids.begin() + s.begin,
                                     batches[0].ids.begin() + s.begin + s.length);
      const std::vector<float> got = AllLogits(*run.backend, Stream(), *run.loaded.model, ids);
      for (size_t i = 0; i < got.size(); ++i) {
        const double expected = want[s.begin * vocab + i];
        worst = std::max(worst, std::abs(got[i] - expected));
        largest = std::max(largest, std::abs(expected));
      }
    }
    CHECK(worst <= 32 * kEpsilon * largest);
  }
}

TEST_CASE("loss and every gradient equal PyTorch's") {
  const std::vector<Batch> batches = GoldenBatches();
  for (const Case& c : Cases()) {
    CAPTURE(c.model);
    CAPTURE(c.lora);
    const Fixture fixture(c.model);
    GoldenRun run(c.model, c.lora, {}, std::nullopt);
    const StepOutput output = run.Run(batches[0], 1, 0.0);
    CheckClose(output.loss, fixture.Get<float>(c.prefix() + "loss")[0], 8, "loss");
    const NamedGradients got = run.Values([](Parameter& p) { return p.gradient; });
    CHECK(WorstGradientError(got, Expected(fixture, c.prefix() + "grad.", got)) <= kGradientError);
  }
}

TEST_CASE("20 steps of AdamW give PyTorch's losses and moments") {
  const std::vector<Batch> batches = GoldenBatches();
  for (const Case& c : Cases()) {
    const Fixture fixture(c.model);
    if (!fixture.Has(c.prefix() + "adamw.loss")) continue;
    CAPTURE(c.model);
    CAPTURE(c.lora);
    GoldenRun run(c.model, c.lora, {.weight_decay = 0.1f}, 1.0f);
    const LrOptions schedule = {.peak = 1e-3, .warmup_steps = 3, .total_steps = 20};
    const auto losses = fixture.Get<float>(c.prefix() + "adamw.loss");
    const auto norms = fixture.Get<float>(c.prefix() + "adamw.grad_norm");
    const auto rates = fixture.Get<float>(c.prefix() + "adamw.lr");
    for (size_t i = 0; i < batches.size(); ++i) {
      CheckClose(LearningRate(schedule, i), rates[i], 1, StrCat("learning rate of step ", i));
      const StepOutput output = run.Run(batches[i], i + 1, LearningRate(schedule, i));
      // AdamW turns noise into steps of the learning rate: the losses drift apart by a little.
      CheckClose(output.loss, losses[i], 200, StrCat("loss of step ", i));
      CheckClose(output.grad_norm, norms[i], 2000, StrCat("gradient norm of step ", i));
    }
    if (c.lora) continue;  // moments are kept for full fine-tuning only
    const NamedGradients first =
        run.Values([&](Parameter& p) { return run.optimizer->StateOf(p, "moment1"); });
    const NamedGradients second =
        run.Values([&](Parameter& p) { return run.optimizer->StateOf(p, "moment2"); });
    CHECK(WorstGradientError(first, Expected(fixture, "full.adamw.exp_avg.", first)) <= 1e-4);
    CHECK(WorstGradientError(second, Expected(fixture, "full.adamw.exp_avg_sq.", second)) <= 1e-4);
  }
}

TEST_CASE("20 steps of SGD give PyTorch's weights") {
  const std::vector<Batch> batches = GoldenBatches();
  for (const Case& c : Cases()) {
    const Fixture fixture(c.model);
    if (!fixture.Has(c.prefix() + "sgd.loss")) continue;
    CAPTURE(c.model);
    CAPTURE(c.lora);
    GoldenRun run(c.model, c.lora, {.kind = OptimizerKind::kSgd}, std::nullopt);
    const auto losses = fixture.Get<float>(c.prefix() + "sgd.loss");
    for (size_t i = 0; i < batches.size(); ++i) {
      CheckClose(run.Run(batches[i], i + 1, 0.05).loss, losses[i], 64, StrCat("loss of step ", i));
    }
    const NamedGradients got = run.Values([](Parameter& p) { return p.value; });
    CHECK(WorstGradientError(got, Expected(fixture, c.prefix() + "sgd.weight.", got)) <= kGradientError);
  }
}

}  // namespace
}  // namespace ftune::testing
