#include "engine/verify/verify_run.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/json_file.h"
#include "base/strings.h"

namespace ftune {
namespace {

double RelativeError(double x, double expected) {
  const double error = std::abs(x - expected) / std::max(std::abs(expected), 1e-30);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

// Runs the steps; `on_gradients` sees those of the first, before the update.
absl::StatusOr<std::vector<VerifyStep>> RunSteps(const VerifyTrainer& trainer, int64_t steps,
                                                 const std::function<absl::Status()>& on_gradients) {
  std::vector<VerifyStep> done;
  while (static_cast<int64_t>(done.size()) < steps) {
    FTUNE_ASSIGN_OR_RETURN(std::optional<StepBatches> batches, trainer.batches.Next());
    if (!batches) {
      return DataError({.message = StrCat("the data ends after ", done.size(), " steps"),
                        .expected = StrCat(steps, " to compare"),
                        .hint = "lower --steps, or raise train.num_epochs"});
    }
    StepInput input = {
        .step = batches->next.step,
        .microbatches = std::move(batches->microbatches),
        .trained_tokens = batches->trained_tokens,
        .learning_rate = static_cast<float>(LearningRate(trainer.learning_rate, batches->next.step - 1))};
    if (done.empty()) input.before_update = on_gradients;
    FTUNE_ASSIGN_OR_RETURN(const StepOutput output, trainer.step.Run(input, trainer.stop));
    if (!output.completed) return absl::CancelledError("stopped");
    done.push_back({output.loss, output.grad_norm});
  }
  return done;
}

// ‖x′ - x‖ of each tensor, over its movement from `start` and a floor of what rounding does to weights.
std::vector<TensorDifference> RelativeToMovement(std::vector<TensorDifference> differences,
                                                 const std::vector<TensorDifference>& moved) {
  // So many epsilons of f32 of a weight's size are no error, at a tolerance of 1e-5.
  constexpr double kRounding = 0.05;
  for (size_t i = 0; i < differences.size(); ++i) {
    differences[i].norm = moved[i].difference + kRounding * differences[i].norm;
  }
  return differences;
}

VerifyMeasure MeasureWeights(const std::vector<TensorDifference>& differences,
                             const std::vector<TensorDifference>& moved, const VerifyTolerances& tolerances) {
  if (tolerances.by_parameter) {
    const WorstTensor worst = WorstOf(RelativeToMovement(differences, moved));
    return {StrCat("weights of ", worst.name.empty() ? "all parameters" : worst.name), worst.error,
            tolerances.weights};
  }
  double difference = 0.0, movement = 0.0;
  for (size_t i = 0; i < differences.size(); ++i) {
    difference += differences[i].difference * differences[i].difference;
    movement += moved[i].difference * moved[i].difference;
  }
  return {"movement of all weights", difference == 0.0 ? 0.0 : std::sqrt(difference / movement),
          tolerances.weights};
}

// Of several numbers of steps the worst, of whichever rank.
absl::StatusOr<VerifyMeasure> MeasureSteps(std::string_view what, double VerifyStep::*number,
                                           const std::vector<VerifyStep>& steps,
                                           const std::vector<VerifyStep>& expected,
                                           const VerifyTolerances& tolerances, Communicator& world) {
  std::vector<double> errors;
  for (size_t i = 0; i < steps.size(); ++i) {
    errors.push_back(RelativeError(steps[i].*number, expected[i].*number));
  }
  FTUNE_RETURN_IF_ERROR(world.Run(Call::AllReduce(
      {reinterpret_cast<std::byte*>(errors.data()), std::ssize(errors), DType::kF64, Stream()},
      ReduceOp::kMax)));
  VerifyMeasure worst = {std::string(what), 0.0, tolerances.gradient};
  for (size_t i = 0; i < steps.size(); ++i) {
    const VerifyMeasure measure = {StrCat(what, " of step ", i + 1), errors[i],
                                   i == 0 ? tolerances.gradient : tolerances.loss};
    if (i == 0 || measure.error * worst.tolerance > worst.error * measure.tolerance) worst = measure;
  }
  return worst;
}

}  // namespace

absl::Status VerifyReference::WriteSteps(const std::vector<VerifyStep>& steps) const {
  nlohmann::json list = nlohmann::json::array();
  for (const VerifyStep& step : steps) list.push_back({{"loss", step.loss}, {"grad_norm", step.grad_norm}});
  return WriteFileAtomic(this->steps(), list.dump());
}

absl::StatusOr<std::vector<VerifyStep>> VerifyReference::ReadSteps() const {
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json list, ReadJsonFile(steps()));
  std::vector<VerifyStep> steps;
  for (const nlohmann::json& step : list) steps.push_back({step.at("loss"), step.at("grad_norm")});
  return steps;
}

VerifyTolerances VerifyTolerances::For(OptimizerKind kind) {
  if (kind == OptimizerKind::kSgd) return {};
  return {.loss = 1e-3, .weights = 5e-2, .by_parameter = false};
}

const VerifyMeasure& VerifyResult::worst() const {
  const VerifyMeasure* worst = &loss;
  for (const VerifyMeasure* measure : {&grad_norm, &gradient, &weights}) {
    if (measure->error * worst->tolerance > worst->error * measure->tolerance) worst = measure;
  }
  return *worst;
}

absl::Status RunReference(const VerifyTrainer& trainer, int64_t steps, const VerifyReference& reference) {
  FTUNE_RETURN_IF_ERROR(WriteReference(trainer.backend, OwnedValues(trainer.model), reference.start()));
  const auto write_gradients = [&] {
    return WriteReference(trainer.backend, OwnedGradients(trainer.model), reference.gradients());
  };
  FTUNE_ASSIGN_OR_RETURN(const std::vector<VerifyStep> done, RunSteps(trainer, steps, write_gradients));
  for (size_t i = 0; i < done.size(); ++i) {
    if (std::isfinite(done[i].loss) && std::isfinite(done[i].grad_norm)) continue;
    return UserError(ExitCode::kNotFinite,
                     {.key = StrCat("step ", i + 1, " on one rank"),
                      .message = "there is nothing to compare with",
                      .found = StrCat("loss ", done[i].loss, ", gradient norm ", done[i].grad_norm),
                      .expected = "finite numbers"});
  }
  FTUNE_RETURN_IF_ERROR(WriteReference(trainer.backend, OwnedValues(trainer.model), reference.weights()));
  return reference.WriteSteps(done);
}

absl::StatusOr<VerifyResult> RunComparison(const VerifyTrainer& trainer, const VerifyReference& reference,
                                           const VerifyTolerances& tolerances) {
  Communicator& world = trainer.step.shards().mesh().world();
  const auto compare = [&](const std::vector<StatePart>& parts, const std::filesystem::path& path) {
    return CompareWithReference(trainer.backend, parts, path, world);
  };
  using Differences = std::vector<TensorDifference>;
  FTUNE_ASSIGN_OR_RETURN(const std::vector<VerifyStep> expected, reference.ReadSteps());
  FTUNE_ASSIGN_OR_RETURN(const Differences start, compare(OwnedValues(trainer.model), reference.start()));
  // What is computed from weights when an adapter begins (DoRA's norms) is rounded as the slices are.
  constexpr double kComputed = 1e-6;
  const WorstTensor unlike = WorstOf(start);
  if (unlike.error > kComputed) {
    return DataError({.key = unlike.name,
                      .message = "the weights before the first step are not those of one rank",
                      .found = StrCat("a relative difference of ", unlike.error)});
  }

  // Stays as it is where the first step has nothing finite, and no gradients are seen.
  VerifyMeasure gradient = {"gradients, which are not finite", std::numeric_limits<double>::infinity(),
                            tolerances.gradient};
  const auto compare_gradients = [&]() -> absl::Status {
    FTUNE_ASSIGN_OR_RETURN(const Differences differences,
                           compare(OwnedGradients(trainer.model), reference.gradients()));
    const WorstTensor worst = WorstOf(differences);
    gradient.what = StrCat("gradient of ", worst.name.empty() ? "all parameters" : worst.name);
    gradient.error = worst.error;
    return absl::OkStatus();
  };
  FTUNE_ASSIGN_OR_RETURN(const std::vector<VerifyStep> steps,
                         RunSteps(trainer, static_cast<int64_t>(expected.size()), compare_gradients));
  FTUNE_ASSIGN_OR_RETURN(const Differences weights, compare(OwnedValues(trainer.model), reference.weights()));
  // How far one rank went: of its end from its start, which every rank can tell by the files alone.
  FTUNE_ASSIGN_OR_RETURN(const Differences moved, DifferencesOfFiles(reference.weights(), reference.start()));

  FTUNE_ASSIGN_OR_RETURN(VerifyMeasure loss,
                         MeasureSteps("loss", &VerifyStep::loss, steps, expected, tolerances, world));
  FTUNE_ASSIGN_OR_RETURN(VerifyMeasure grad_norm, MeasureSteps("gradient norm", &VerifyStep::grad_norm, steps,
                                                               expected, tolerances, world));
  return VerifyResult{.loss = std::move(loss),
                      .grad_norm = std::move(grad_norm),
                      .gradient = std::move(gradient),
                      .weights = MeasureWeights(weights, moved, tolerances)};
}

}  // namespace ftune
