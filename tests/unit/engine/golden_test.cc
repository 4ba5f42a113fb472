// The engine against PyTorch, transformers and peft: a tiny random model of every family, full and LoRA, and
// every kind of adapter, f32; and LoRA on bases that are quantised as bitsandbytes does. The values were made
// by tests/golden/make_golden.py, adapters.py and qlora_golden.py, which compute each sample alone; here they
// are packed.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <tuple>

#include "base/safetensors.h"
#include "base/strings.h"
#include "engine/adapter/lora_names.h"
#include "engine/format/loaded_model.h"
#include "engine/format/peft.h"
#include "engine/format/quantized_weights.h"
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
  explicit Fixture(const std::string& path) {
    auto file = SafetensorsFile::Open(Golden(path));
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
  const Fixture fixture("fixtures/batches.safetensors");
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

std::vector<float> Turned(const std::vector<float>& values, int64_t rows, int64_t cols) {
  std::vector<float> turned(values.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) turned[c * rows + r] = values[r * cols + c];
  }
  return turned;
}

// What is trained, and where its values are.
struct Case {
  std::string model;    // a folder
  std::string adapter;  // a folder; empty: full fine-tuning
  std::string values;   // a file
  std::string prefix;   // of the tensors in it
  std::optional<DType> quantize = std::nullopt;
};

// A model of the golden set with its optimizer and step.
struct GoldenRun {
  GoldenRun(const Case& c, const OptimizerOptions& optimizer_options, std::optional<float> max_grad_norm)
      : backend(MakeCpu(1)) {
    LoadModelOptions options;
    options.max_length = 64;
    options.trainable = [](const std::string&) { return true; };
    options.quantize = c.quantize;
    if (!c.adapter.empty()) options.adapters = {Golden(c.adapter)};
    auto opened = LoadModel(*backend, Stream(), Golden(c.model), options);
    REQUIRE_MESSAGE(opened.ok(), std::string(opened.status().message()));
    loaded = *std::move(opened);
    optimizer = std::make_unique<Optimizer>(*backend, Stream(), *loaded.model, optimizer_options);
    loaded.model->AllocateGradients(*backend, Stream());
    step = std::make_unique<TrainStep>(*backend, Stream(), *loaded.model, *optimizer,
                                       TrainStep::Options{.max_grad_norm = max_grad_norm});
  }

  StepOutput Run(const Batch& batch, int64_t number, double learning_rate) {
    return *step->Run({.step = number,
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
  // What `tensor_of` gives for each trainable parameter, as PEFT shapes it.
  NamedGradients Values(const std::function<Tensor(Parameter&)>& tensor_of) {
    NamedGradients all;
    for (Parameter* p : loaded.model->parameters()) {
      if (!p->trainable) continue;
      std::vector<float> values = Read(tensor_of(*p));
      if (p->name.ends_with(kLoraEmbeddingA)) values = Turned(values, p->shape[0], p->shape[1]);
      all.emplace_back(p->name, std::move(values));
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

std::vector<Case> Cases() {
  // All of them: those with a fixture, a model and an adapter of one name.
  std::vector<Case> cases;
  for (const auto& entry : std::filesystem::directory_iterator(Golden("models"))) {
    const std::string model = StrCat("models/", entry.path().filename().string());
    const std::string values = StrCat("fixtures/", entry.path().filename().string(), ".safetensors");
    const std::string adapter = StrCat(model, "-lora");
    if (!std::filesystem::exists(Golden(adapter)) || !std::filesystem::exists(Golden(values))) continue;
    cases.push_back({model, "", values, "full."});
    cases.push_back({model, adapter, values, "lora."});
  }
  // What base an adapter is for, it says itself.
  for (const auto& entry : std::filesystem::directory_iterator(Golden("adapters"))) {
    const std::string folder = StrCat("adapters/", entry.path().filename().string());
    const auto config = ReadPeftConfig(entry.path());
    REQUIRE_MESSAGE(config.ok(), std::string(config.status().message()));
    cases.push_back(
        {StrCat("models/", config->base_model), folder, StrCat(folder, "/values.safetensors"), ""});
  }
  const size_t plain = cases.size();
  for (const auto& entry : std::filesystem::directory_iterator(Golden("quantized"))) {
    const std::string name = entry.path().stem().string();
    std::string adapter = StrCat("adapters/", name);
    if (!std::filesystem::exists(Golden(adapter))) adapter = StrCat("models/", name, "-lora");
    const auto config = ReadPeftConfig(Golden(adapter));
    if (!config.ok()) continue;  // values alone, without a model
    const std::string values = StrCat("quantized/", name, ".safetensors");
    for (const DType form : {DType::kNF4, DType::kFP4, DType::kInt8}) {
      const std::string prefix = StrCat(QuantizationName(form), ".");
      if (!Fixture(values).Has(StrCat(prefix, "loss"))) continue;
      cases.push_back({StrCat("models/", config->base_model), adapter, values, prefix, form});
    }
  }
  REQUIRE(cases.size() >= plain + 16);
  std::sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) {
    return std::tie(a.model, a.adapter) < std::tie(b.model, b.adapter);
  });
  REQUIRE(cases.size() >= 76);
  return cases;
}

TEST_CASE("logits equal transformers'") {
  const std::vector<Batch> batches = GoldenBatches();
  for (const Case& c : Cases()) {
    CAPTURE(c.model);
    CAPTURE(c.adapter);
    const Fixture fixture(c.values);
    GoldenRun run(c, {}, std::nullopt);
    const std::vector<float> want = fixture.Get<float>(c.prefix + "logits");
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
    CAPTURE(c.adapter);
    const Fixture fixture(c.values);
    GoldenRun run(c, {}, std::nullopt);
    const StepOutput output = run.Run(batches[0], 1, 0.0);
    CheckClose(output.loss, fixture.Get<float>(c.prefix + "loss")[0], 8, "loss");
    const NamedGradients got = run.Values([](Parameter& p) { return p.gradient; });
    CHECK(WorstGradientError(got, Expected(fixture, c.prefix + "grad.", got)) <= kGradientError);
  }
}

TEST_CASE("20 steps of AdamW give PyTorch's losses and moments") {
  const std::vector<Batch> batches = GoldenBatches();
  for (const Case& c : Cases()) {
    const Fixture fixture(c.values);
    if (!fixture.Has(c.prefix + "adamw.loss")) continue;
    CAPTURE(c.model);
    CAPTURE(c.adapter);
    GoldenRun run(c, {.weight_decay = 0.1f}, 1.0f);
    const LrOptions schedule = {.peak = 1e-3, .warmup_steps = 3, .total_steps = 20};
    const auto losses = fixture.Get<float>(c.prefix + "adamw.loss");
    const auto norms = fixture.Get<float>(c.prefix + "adamw.grad_norm");
    const auto rates = fixture.Get<float>(c.prefix + "adamw.lr");
    for (size_t i = 0; i < batches.size(); ++i) {
      CheckClose(LearningRate(schedule, i), rates[i], 1, StrCat("learning rate of step ", i));
      const StepOutput output = run.Run(batches[i], i + 1, LearningRate(schedule, i));
      // AdamW turns noise into steps of the learning rate: the losses drift apart by a little.
      CheckClose(output.loss, losses[i], 200, StrCat("loss of step ", i));
      CheckClose(output.grad_norm, norms[i], 2000, StrCat("gradient norm of step ", i));
    }
    if (!c.adapter.empty()) continue;  // moments are kept for full fine-tuning only
    const NamedGradients first =
        run.Values([&](Parameter& p) { return *run.optimizer->StateOf(p, "moment1"); });
    const NamedGradients second =
        run.Values([&](Parameter& p) { return *run.optimizer->StateOf(p, "moment2"); });
    CHECK(WorstGradientError(first, Expected(fixture, "full.adamw.exp_avg.", first)) <= 1e-4);
    CHECK(WorstGradientError(second, Expected(fixture, "full.adamw.exp_avg_sq.", second)) <= 1e-4);
  }
}

TEST_CASE("20 steps of SGD give PyTorch's weights") {
  const std::vector<Batch> batches = GoldenBatches();
  for (const Case& c : Cases()) {
    const Fixture fixture(c.values);
    if (!fixture.Has(c.prefix + "sgd.loss")) continue;
    CAPTURE(c.model);
    CAPTURE(c.adapter);
    GoldenRun run(c, {.kind = OptimizerKind::kSgd}, std::nullopt);
    const auto losses = fixture.Get<float>(c.prefix + "sgd.loss");
    for (size_t i = 0; i < batches.size(); ++i) {
      CheckClose(run.Run(batches[i], i + 1, 0.05).loss, losses[i], 64, StrCat("loss of step ", i));
    }
    const NamedGradients got = run.Values([](Parameter& p) { return p.value; });
    CHECK(WorstGradientError(got, Expected(fixture, c.prefix + "sgd.weight.", got)) <= kGradientError);
  }
}

}  // namespace
}  // namespace ftune::testing
