#include "cmd/train/memory_check.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "cmd/plan/host_memory.h"
#include "cmd/plan/make_plan.h"
#include "cmd/plan/nearest_changes.h"

namespace ftune {
namespace {

std::string DescribeChanges(const LoadedRecipe& loaded) {
  const std::vector<FittingChange> changes = FindFittingChanges(loaded);
  std::vector<std::string> lines;
  for (const FittingChange& change : changes) {
    lines.push_back(StrCat(change.overrides, " (", HumanBytes(change.needs), ")"));
  }
  if (lines.empty()) return "take a smaller model or more hosts; `ftune plan` shows what takes the memory";
  return StrCat("what would fit: ", StrJoin(lines, ", or "), "; --force trains all the same");
}

absl::StatusOr<PlanResult> PlanOf(LoadedRecipe loaded, const ModelPlan& model, PackContent content) {
  return MakePlan(loaded, model, {.content = content});
}

}  // namespace

absl::Status CheckFitsHost(const TrainOptions& options, const LoadedRecipe& loaded, const ModelPlan& model,
                           Progress& progress) {
  const absl::StatusOr<PlanResult> full = PlanOf(loaded, model, PackContent::kFull);
  if (!full.ok()) return absl::OkStatus();
  const std::string there_is = StrCat(HumanBytes(full->capacity), " of this host's memory");
  const int64_t needs = full->Needs(full->Largest());
  if (full->fits()) {
    const int64_t available = AvailableMemory() / *loaded.recipe.launch.ranks_per_host;
    if (needs > available) {
      progress.Say(StrCat("warning: a rank needs up to ", HumanBytes(needs), ", and of its ", there_is,
                          " others leave ", HumanBytes(available), " at the moment"));
    }
    return absl::OkStatus();
  }
  const absl::StatusOr<PlanResult> least = PlanOf(loaded, model, PackContent::kLeast);
  if (!least.ok()) return absl::OkStatus();
  if (least->fits() || options.force) {
    progress.Say(StrCat("warning: a rank needs ", least->fits() ? "up to " : "", HumanBytes(needs),
                        " and has ", there_is,
                        least->fits() ? ": whether it fits depends on the data" : ": --force goes on"));
    return absl::OkStatus();
  }
  return UserError(ExitCode::kDoesNotFit, {.file = loaded.file,
                                           .message = "the recipe does not fit this host",
                                           .found = StrCat(HumanBytes(needs), " for a rank"),
                                           .expected = StrCat("at most ", there_is),
                                           .hint = DescribeChanges(loaded)});
}

}  // namespace ftune
