#include "cmd/plan/data_facts.h"

#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "cmd/hub/resolve.h"
#include "cmd/report/hub_progress.h"
#include "cmd/run_data.h"
#include "cmd/train/train_checks.h"

namespace ftune {
namespace {

constexpr int64_t kMostBytes = 256'000'000;  // of files that a plan prepares: less than a minute's work

absl::StatusOr<DataFacts> FactsOf(LoadedRecipe loaded, const ModelPlan& model, const Invocation& invocation) {
  FTUNE_RETURN_IF_ERROR(CheckNoPipes(loaded, "a plan and a run", "a plan needs none of it"));
  const HubReporter hub = HubProgress(invocation.verbosity());
  FTUNE_RETURN_IF_ERROR(ResolveDatasetsOf(loaded, hub, HubAccess::kCacheOnly));
  Progress progress(stderr, invocation.verbosity());
  FTUNE_ASSIGN_OR_RETURN(const RunData data, LoadRunData(loaded, model, hub, progress, kMostBytes));
  FTUNE_ASSIGN_OR_RETURN(const DataPlan plan, data.TrainPlan(loaded.recipe));
  const DataPlan::Epoch& epoch = plan.epochs().front();
  return DataFacts{.samples = epoch.samples,
                   .tokens = epoch.tokens,
                   .trained_tokens = epoch.trained_tokens,
                   .packs = epoch.packs,
                   .fill = epoch.fill(),
                   .steps = {.total = plan.total_steps(), .epoch = epoch.steps}};
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
