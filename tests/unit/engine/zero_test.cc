// Several ranks train one model: whatever is sharded, they do what one rank does.
#include <doctest/doctest.h>

#include "base/error.h"
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

TinyOptions Sgd() {
  TinyOptions options;
  options.optimizer = {.kind = OptimizerKind::kSgd, .momentum = 0.9f, .weight_decay = 0.1f};
  return options;
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

}  // namespace
}  // namespace ftune::testing
