#include "cmd/plan/data_facts.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "cmd/hub/resolve.h"
#include "cmd/report/hub_progress.h"
#include "cmd/run_data.h"
#include "cmd/train/train_checks.h"
#include "engine/train/run_end.h"

namespace ftune {
namespace {

constexpr int64_t kMostBytes = 256'000'000;  // of files that a plan prepares: less than a minute's work

// Of microbatches from all over the run.
std::optional<TypicalPack> TypicalOf(const DataPlan& plan) {
  constexpr int64_t kMostSteps = 64;
  const int64_t steps = std::min(plan.total_steps(), kMostSteps);
  double packs = 0, capacity = 0, used = 0, trained = 0, attended = 0, squares = 0;
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t step = i * plan.total_steps() / steps;
    const Batch batch = plan.MicroBatch(step, i % plan.MicroBatches(step));
    packs += static_cast<double>(batch.packs);
    capacity += static_cast<double>(batch.tokens());
    used += static_cast<double>(batch.used_tokens);
    trained += static_cast<double>(batch.trained_tokens);
    for (const Segment& segment : batch.segments) {
      if (!batch.Trains(segment)) continue;
      attended += segment.length;
      squares += static_cast<double>(segment.length) * segment.length;
    }
  }
  if (trained == 0) return std::nullopt;
  const auto mean = [](double sum, double of) { return std::max<int64_t>(1, std::llround(sum / of)); };
  return TypicalPack{mean(capacity, packs), mean(used, packs), mean(trained, packs), mean(squares, attended)};
}

// Needs the run's steps.
absl::Status CountEvaluations(const Recipe& recipe, const RunData& data, DataFacts& facts) {
  FTUNE_ASSIGN_OR_RETURN(const DataPlan plan, data.EvaluationPlan(recipe));
  for (int64_t step = 0; step < plan.total_steps(); ++step) {
    facts.evaluation_microbatches += plan.MicroBatches(step);
  }
  const TrainerOptions options = ToTrainerOptions(recipe, facts.steps);
  facts.evaluations = options.eval_on_start ? 1 : 0;
  for (int64_t done = 1; done <= facts.steps.total; ++done) {
    if (EvaluationDue(options, done)) ++facts.evaluations;
  }
  return absl::OkStatus();
}

absl::StatusOr<DataFacts> FactsOf(LoadedRecipe loaded, const ModelPlan& model, const Invocation& invocation) {
  FTUNE_RETURN_IF_ERROR(CheckNoPipes(loaded, "a plan and a run", "a plan needs none of it"));
  const HubReporter hub = HubProgress(invocation.verbosity());
  FTUNE_RETURN_IF_ERROR(ResolveDatasetsOf(loaded, hub, HubAccess::kCacheOnly));
  Progress progress(stderr, invocation.verbosity());
  FTUNE_ASSIGN_OR_RETURN(const RunData data, LoadRunData(loaded, model, hub, progress, kMostBytes));
  FTUNE_ASSIGN_OR_RETURN(const DataPlan plan, data.TrainPlan(loaded.recipe));
  const DataPlan::Epoch& epoch = plan.epochs().front();
  DataFacts facts = {.samples = epoch.samples,
                     .tokens = epoch.tokens,
                     .trained_tokens = epoch.trained_tokens,
                     .packs = epoch.packs,
                     .fill = epoch.fill(),
                     .steps = {.total = plan.total_steps(), .epoch = epoch.steps}};
  facts.pack = TypicalOf(plan);
  if (data.evaluation) FTUNE_RETURN_IF_ERROR(CountEvaluations(loaded.recipe, data, facts));
  return facts;
}

}  // namespace

DataFacts LookAtData(const LoadedRecipe& loaded, const ModelPlan& model, const Invocation& invocation) {
  const RunLength steps = {.total = loaded.recipe.train.max_steps.value_or(0)};
  if (loaded.recipe.data.streaming) {
    return {.why_not = "it is streamed, and read while training", .steps = steps};
  }
  const absl::StatusOr<DataFacts> facts = FactsOf(loaded, model, invocation);
  if (facts.ok()) return *facts;
  // In the words of the run that it would end, but no error of a plan.
  const std::string why = absl::StrReplaceAll(facts.status().message(), {{": error: ", ": "}});
  return {.why_not = why, .steps = steps};
}

}  // namespace ftune
