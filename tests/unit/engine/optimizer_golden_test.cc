// Ten steps of each optimizer against PyTorch's and bitsandbytes' (tests/golden/optimizers.py).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/safetensors.h"
#include "base/strings.h"
#include "tests/unit/engine/tiny.h"

namespace ftune::testing {
namespace {

constexpr double kEpsilon = std::numeric_limits<float>::epsilon();
constexpr int kSteps = 10;

struct Case {
  std::string name;
  OptimizerOptions options;
  float learning_rate;
  double tolerance;  // in epsilons of the weights' size
  bool large = false;
};

std::vector<Case> Cases() {
  return {
      {"sgd", {.kind = OptimizerKind::kSgd, .momentum = 0.9f}, 0.05f, 8},
      {"lion", {.kind = OptimizerKind::kLion, .beta2 = 0.99f}, 0.01f, 8},
      {"adafactor", {.kind = OptimizerKind::kAdafactor}, 0.5f, 8},
      {"muon", {.kind = OptimizerKind::kMuon, .momentum = 0.95f}, 0.02f, 32},
      {"muon_original",
       {.kind = OptimizerKind::kMuon, .momentum = 0.95f, .muon_scale = MuonScale::kOriginal},
       0.02f,
       32},
      {"adamw_8bit", {.kind = OptimizerKind::kAdamW8bit}, 0.01f, 8, true},
  };
}

class Fixture {
 public:
  Fixture() {
    auto file =
        SafetensorsFile::Open(StrCat(FTUNE_SOURCE_DIR, "/tests/golden/optimizers/values.safetensors"));
    REQUIRE_MESSAGE(file.ok(), std::string(file.status().message()));
    file_ = std::make_unique<SafetensorsFile>(*std::move(file));
  }
  std::vector<float> Get(const std::string& name, std::vector<int64_t>* shape = nullptr) const {
    const SafetensorsEntry* entry = file_->Find(name);
    REQUIRE_MESSAGE(entry != nullptr, name);
    if (shape != nullptr) *shape = entry->shape;
    std::vector<float> values(entry->bytes.size() / sizeof(float));
    std::memcpy(values.data(), entry->bytes.data(), entry->bytes.size());
    return values;
  }

 private:
  std::unique_ptr<SafetensorsFile> file_;
};

class OneParameter {
 public:
  OneParameter(const Fixture& fixture, const Case& c, const std::string& name)
      : backend_(MakeCpu()), case_(c) {
    const std::vector<float> values = fixture.Get(StrCat("weights.", name), &parameter_.shape);
    parameter_.local_shape = parameter_.shape;
    gradients_ = fixture.Get(StrCat("gradients.", name));
    weights_ = Upload(values);
    scale_ = Upload(std::vector<float>{1.0f});
    rules_ = MakeRules(c.options);
    rule_ = std::find_if(rules_.begin(), rules_.end(), [&](const auto& r) {
              return r->Covers(parameter_, true);
            })->get();
    for (const StateSpec& spec : rule_->StateOf(parameter_, parameter_.size())) {
      state_.push_back(backend_->Allocate(spec.dtype, 1, spec.size, Category::kOptimizer));
      backend_->Zero(Stream(), state_.back());
    }
  }

  void Step(int64_t step) {
    const int64_t n = parameter_.size(), count = static_cast<int64_t>(gradients_.size()) / n;
    const auto first = gradients_.begin() + (step - 1) % count * n;
    UpdateRun run;
    run.first = &parameter_;
    run.update = {.weights = weights_,
                  .gradients = Upload(std::vector<float>(first, first + n)),
                  .gradient_scale = scale_,
                  .learning_rate = case_.learning_rate,
                  .weight_decay = 0.1f};
    run.state = state_;
    run.step = step;
    rule_->Update(*backend_, Stream(), run);
  }

  // The largest difference, in epsilons of the value and of the weights' typical size.
  double ErrorInEps(const std::vector<float>& want) const {
    std::vector<float> got(want.size());
    backend_->Download(Stream(), weights_, std::as_writable_bytes(std::span(got)));
    const double typical = Norm(want) / std::sqrt(static_cast<double>(want.size()));
    double worst = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      const double error = std::abs(static_cast<double>(got[i]) - want[i]) / (std::abs(want[i]) + typical);
      if (!(error <= worst)) worst = error;  // NaN counts as worst
    }
    return worst / kEpsilon;
  }

 private:
  Tensor Upload(const std::vector<float>& values) {
    const Tensor tensor = backend_->Allocate(1, static_cast<int64_t>(values.size()), Category::kBuffers);
    backend_->Upload(Stream(), std::as_bytes(std::span(values)), tensor);
    return tensor;
  }

  std::unique_ptr<CpuBackend> backend_;
  const Case& case_;
  Parameter parameter_;
  std::vector<float> gradients_;
  Tensor weights_, scale_;
  std::vector<Tensor> state_;
  std::vector<std::unique_ptr<const UpdateRule>> rules_;
  const UpdateRule* rule_ = nullptr;
};

TEST_CASE("optimizers move weights as their references do") {
  const Fixture fixture;
  for (const Case& c : Cases()) {
    std::vector<std::string> names = {"wide", "tall", "vector"};
    if (c.large) names.push_back("large");
    for (const std::string& name : names) {
      CAPTURE(c.name);
      CAPTURE(name);
      OneParameter parameter(fixture, c, name);
      for (int step = 1; step <= kSteps; ++step) {
        parameter.Step(step);
        if (step != 1 && step != kSteps) continue;
        CAPTURE(step);
        CHECK(parameter.ErrorInEps(fixture.Get(StrCat(c.name, ".", name, ".", step))) <= c.tolerance);
      }
    }
  }
}

}  // namespace
}  // namespace ftune::testing
