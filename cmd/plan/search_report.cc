#include "cmd/plan/search_report.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/strings.h"
#include "cmd/plan/make_plan.h"
#include "cmd/plan/plan_json.h"
#include "cmd/plan/plan_text.h"
#include "cmd/recipe/paths.h"
#include "cmd/report/progress.h"
#include "cmd/report/table.h"

namespace ftune {
namespace {

constexpr size_t kShown = 10;

std::string PlaceText(const SearchPlan& plan) {
  return StrCat(plan.choice.hosts, plan.choice.hosts == 1 ? " host" : " hosts");
}

std::string FittingTable(const std::vector<SearchPlan>& plans) {
  std::vector<TableRow> rows = {{"plan", "hosts", "s a step", "tokens/s", "MFU", "needs", "of"}};
  for (const SearchPlan& plan : plans) {
    if (rows.size() > kShown) break;
    rows.push_back({plan.choice.Describe(plan.ranks), StrCat(plan.choice.hosts),
                    absl::StrFormat("%.4g", plan.seconds), absl::StrFormat("%.4g", plan.tokens_per_second),
                    absl::StrFormat("%.1f %%", 100.0 * plan.mfu), HumanBytes(plan.needs),
                    HumanBytes(plan.capacity)});
  }
  return TableText(rows, CellsTo::kRight);
}

std::string OthersText(const std::vector<SearchPlan>& plans) {
  std::string text;
  for (size_t i = 0; i < std::min(kShown, plans.size()); ++i) {
    const SearchPlan& plan = plans[i];
    StrAppend(text, "  ", PlaceText(plan), ": ", plan.choice.Describe(plan.ranks), ": ");
    if (plan.capacity == 0) {
      StrAppend(text, plan.why_not, "\n");
    } else {
      StrAppend(text, "needs ", HumanBytes(plan.needs), " of ", HumanBytes(plan.capacity), "\n");
    }
  }
  return text;
}

nlohmann::ordered_json ToJson(const SearchPlan& plan) {
  const SearchChoice& choice = plan.choice;
  nlohmann::ordered_json json = {{"plan", choice.Describe(plan.ranks)},
                                 {"hosts", choice.hosts},
                                 {"parallel",
                                  {{"tensor", choice.tensor},
                                   {"pipeline", choice.pipeline},
                                   {"data", plan.ranks / choice.tensor / choice.pipeline},
                                   {"zero", choice.zero},
                                   {"schedule", choice.schedule}}},
                                 {"micro_batch_size", choice.micro_batch},
                                 {"needs", plan.needs},
                                 {"capacity", plan.capacity}};
  if (plan.why_not.empty()) {
    json["step_seconds"] = plan.seconds;
    json["tokens_per_second"] = plan.tokens_per_second;
    json["mfu"] = plan.mfu;
  } else {
    json["why_not"] = plan.why_not;
  }
  return json;
}

nlohmann::ordered_json ToJson(const std::vector<SearchPlan>& plans) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (size_t i = 0; i < std::min(kShown, plans.size()); ++i) json.push_back(ToJson(plans[i]));
  return json;
}

LoadedRecipe RecipeOf(const LoadedRecipe& loaded, const SearchPlan& plan) {
  LoadedRecipe given = loaded;
  given.recipe = *loaded.given;
  return WithChoice(std::move(given), plan.choice, plan.ranks, *loaded.recipe.train.global_batch_size);
}

}  // namespace

absl::StatusOr<CommandResult> SearchAndReport(const LoadedRecipe& loaded, const ModelPlan& model,
                                              const Target& target, int max_hosts, const std::string& write) {
  FTUNE_ASSIGN_OR_RETURN(const SearchResult found, SearchPlans(loaded, model, target, max_hosts));
  CommandResult result;
  result.text = StrCat(found.planned, " plans were made\n");
  result.json = {{"planned", found.planned},
                 {"fits", !found.fitting.empty()},
                 {"found", ToJson(found.fitting)},
                 {"others", ToJson(found.others)}};
  if (!found.fitting.empty()) StrAppend(result.text, "\n", FittingTable(found.fitting));
  if (!found.others.empty()) {
    StrAppend(result.text, "\nmeshes with which nothing fits, and what comes closest with each:\n",
              OthersText(found.others));
  }
  if (found.fitting.empty()) {
    StrAppend(result.text, "\nnothing fits\n");
    result.exit = static_cast<int>(ExitCode::kDoesNotFit);
  } else {
    const SearchPlan& best = found.fitting.front();
    LoadedRecipe chosen = RecipeOf(loaded, best);
    // Before it is resolved: what is auto stays so. A recipe that lies elsewhere means the same files.
    if (!write.empty()) {
      FTUNE_RETURN_IF_ERROR(WriteFileAtomic(write, ToYaml(WithAbsolutePaths(chosen.recipe))));
    }
    Target where = target;
    where.hosts = best.choice.hosts;
    FTUNE_RETURN_IF_ERROR(ResolveFor(chosen, where));
    FTUNE_ASSIGN_OR_RETURN(const PlanResult plan, MakePlan(chosen, model, {.target = where}));
    StrAppend(result.text, "\nthe first of them, whole: ", best.choice.Describe(best.ranks), "\n",
              PlanText(plan));
    if (!write.empty()) StrAppend(result.text, "its recipe: ", write, "\n");
    result.json["plan"] = PlanJson(plan);
  }
  result.json["exit"] = result.exit;
  return result;
}

}  // namespace ftune
