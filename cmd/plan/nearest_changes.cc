#include "cmd/plan/nearest_changes.h"

#include <map>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "cmd/plan/make_plan.h"
#include "cmd/run_options.h"

namespace ftune {
namespace {

constexpr size_t kMostChanges = 4;
constexpr int64_t kShortest = 256;  // tokens of a text that is still worth training on

using Overrides = std::vector<std::string>;

// As if the command line had had them too.
absl::StatusOr<LoadedRecipe> Changed(const LoadedRecipe& loaded, const Overrides& overrides) {
  FTUNE_ASSIGN_OR_RETURN(LoadedRecipe changed, LoadRecipeText(ToYaml(*loaded.given), loaded.file, overrides));
  // The text has all keys: those were given that were given before, and those of the overrides.
  std::map<std::string, LoadedRecipe::Place> places = loaded.places;
  for (const auto& [key, place] : changed.places) {
    if (changed.GivenOnCommandLine(key)) places[key] = place;
  }
  changed.places = std::move(places);
  FTUNE_RETURN_IF_ERROR(ResolveHere(changed, std::nullopt));
  return changed;
}

absl::StatusOr<PlanResult> PlanWith(const LoadedRecipe& loaded, const Overrides& overrides) {
  FTUNE_ASSIGN_OR_RETURN(LoadedRecipe changed, Changed(loaded, overrides));
  FTUNE_ASSIGN_OR_RETURN(const ModelPlan model, ToModelPlan(changed, HubReporter()));
  return MakePlan(changed, model);
}

// Ways to change one thing, from little to much.
using Ways = std::vector<Overrides>;

Ways SmallerMicrobatches(const Recipe& recipe) {
  Ways ways;
  const int64_t of_rank = *recipe.train.global_batch_size / *recipe.parallel.data;
  for (int64_t size = *recipe.train.micro_batch_size / 2; size >= 1; size /= 2) {
    if (of_rank % size != 0) continue;
    ways.push_back({StrCat("train.micro_batch_size=", size),
                    StrCat("train.gradient_accumulation_steps=", of_rank / size)});
  }
  return ways;
}

Ways MoreZero(const ParallelSection& parallel) {
  Ways ways;
  for (int64_t zero = parallel.zero + 1; *parallel.data > 1 && zero <= 3; ++zero) {
    ways.push_back({StrCat("parallel.zero=", zero)});
  }
  return ways;
}

Ways ShorterTexts(const DataSection& data) {
  Ways ways;
  for (int64_t length = data.sequence_len / 2; length >= kShortest; length /= 2) {
    ways.push_back({StrCat("data.sequence_len=", length)});
  }
  return ways;
}

Ways Adapters(const Recipe& recipe) {
  Ways ways;
  if (!recipe.adapter) ways.push_back({"adapter.kind=lora"});
  if (!recipe.adapter || recipe.adapter->quantize == Quantization::kNone) {
    ways.push_back({"adapter.kind=qlora"});
  }
  return ways;
}

// What changes least of what is learned comes first.
std::vector<Ways> AllWays(const Recipe& recipe) {
  std::vector<Ways> all = {SmallerMicrobatches(recipe)};
  if (recipe.memory.activation_checkpointing.kind != ActivationCheckpointing::Kind::kFull) {
    all.push_back({{"memory.activation_checkpointing=full"}});
  }
  all.push_back(MoreZero(recipe.parallel));
  if (recipe.memory.offload == Offload::kNone) all.push_back({{"memory.offload=optimizer"}});
  if (recipe.optimizer.name == OptimizerName::kAdamW) all.push_back({{"optimizer.name=adamw_8bit"}});
  if (recipe.precision.weights == WeightType::kFp32) all.push_back({{"precision.weights=bf16"}});
  all.push_back(ShorterTexts(recipe.data));
  all.push_back(Adapters(recipe));
  return all;
}

}  // namespace

std::vector<FittingChange> FindFittingChanges(const LoadedRecipe& loaded) {
  std::vector<FittingChange> found;
  const auto fits = [&](const Overrides& overrides, const absl::StatusOr<PlanResult>& plan) {
    if (!plan.ok() || !plan->fits()) return false;
    found.push_back({.overrides = StrJoin(overrides, " "), .needs = plan->Needs(plan->Largest())});
    return true;
  };
  const std::vector<Ways> all = AllWays(loaded.recipe);
  for (const Ways& ways : all) {
    for (const Overrides& way : ways) {
      if (fits(way, PlanWith(loaded, way))) break;
    }
    if (found.size() == kMostChanges) return found;
  }
  if (!found.empty()) return found;
  Overrides together;
  for (const Ways& ways : all) {
    if (ways.empty()) continue;
    Overrides more = together;
    more.insert(more.end(), ways.back().begin(), ways.back().end());
    const absl::StatusOr<PlanResult> plan = PlanWith(loaded, more);
    if (fits(more, plan)) return found;
    if (plan.ok()) together = std::move(more);  // else it goes with none of those before
  }
  return found;
}

}  // namespace ftune
