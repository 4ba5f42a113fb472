#include "cmd/plan/search.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "cmd/model_session.h"
#include "cmd/plan/make_plan.h"
#include "engine/format/model_config.h"

namespace ftune {
namespace {

// Tries the choices of one mesh and schedule, as few as the order of what they need allows.
class FamilySearch {
 public:
  FamilySearch(const LoadedRecipe& loaded, const ModelPlan& model, const Target& target,
               const SearchFamily& family, Offload offload)
      : loaded_(loaded), model_(model), target_(target), family_(family), offload_(offload) {
    target_.hosts = family.base.hosts;
  }

  std::vector<SearchPlan> Run() {
    for (const int64_t zero : family_.zero_stages) {
      // Sharding further costs time: not where there is room for all that might be had instead.
      if (TryStage(zero)) break;
    }
    return std::move(plans_);
  }

 private:
  // Whether all microbatches fit without recomputation.
  bool TryStage(int64_t zero) {
    bool whole = true;
    for (const int64_t packs : family_.micro_batches) {
      bool fits = false;
      for (const ActivationCheckpointing& policy : CheckpointingPolicies()) {
        SearchChoice choice = family_.base;
        choice.zero = zero;
        choice.offload = offload_;
        choice.micro_batch = packs;
        choice.checkpointing = policy;
        const std::optional<Outcome> outcome = Try(choice);
        if (!outcome) return true;  // nothing of this mesh can be
        if (outcome->fits) {
          fits = true;
          break;  // recomputing more costs time
        }
        whole = false;
        if (outcome->hopeless) return false;
      }
      if (!fits) return false;  // nor will larger ones
    }
    return whole;
  }

  struct Outcome {
    bool fits = false;
    bool hopeless = false;  // not even what is there between steps fits
  };

  std::optional<Outcome> Try(const SearchChoice& choice) {
    const int64_t ranks = int64_t{target_.hosts} * target_.per_host;
    LoadedRecipe given = loaded_;
    given.recipe = *loaded_.given;
    LoadedRecipe recipe =
        WithChoice(std::move(given), choice, ranks, *loaded_.recipe.train.global_batch_size);
    SearchPlan found = {.choice = choice, .ranks = ranks};
    const absl::StatusOr<PlanResult> plan = Plan(recipe);
    if (!plan.ok()) {
      found.why_not = FirstLineOf(plan.status());
      plans_.push_back(std::move(found));
      return std::nullopt;
    }
    const RankRole& most = plan->Largest();
    found.needs = plan->Needs(most);
    found.capacity = plan->capacity;
    found.seconds = plan->time->seconds;
    found.tokens_per_second = plan->tokens_per_second();
    found.mfu = plan->peak_flops ? plan->mfu() : 0.0;
    if (!plan->fits()) found.why_not = "does not fit";
    plans_.push_back(std::move(found));
    return Outcome{plan->fits(), most.dry.ready.total() > plan->capacity};
  }

  absl::StatusOr<PlanResult> Plan(LoadedRecipe& recipe) const {
    FTUNE_RETURN_IF_ERROR(ResolveFor(recipe, target_));
    return MakePlan(recipe, model_, {.target = target_, .depth = PlanDepth::kShort});
  }

  static std::string FirstLineOf(const absl::Status& status) {
    const std::string text(status.message());
    return text.substr(0, text.find('\n'));
  }

  const LoadedRecipe& loaded_;
  const ModelPlan& model_;
  Target target_;
  const SearchFamily& family_;
  Offload offload_;
  std::vector<SearchPlan> plans_;
};

bool LacksLess(const SearchPlan& a, const SearchPlan& b) {
  // Those that cannot be at all come last.
  return std::pair(a.capacity == 0, a.needs - a.capacity) < std::pair(b.capacity == 0, b.needs - b.capacity);
}

void Sort(std::vector<SearchPlan> plans, SearchResult& result) {
  std::optional<SearchPlan> closest;
  bool fits = false;
  for (SearchPlan& plan : plans) {
    if (plan.why_not.empty()) {
      fits = true;
      result.fitting.push_back(std::move(plan));
    } else if (!closest || LacksLess(plan, *closest)) {
      closest = std::move(plan);
    }
  }
  if (!fits && closest) result.others.push_back(*std::move(closest));
}

// Of all families, on all cores.
SearchResult SearchAll(const std::vector<SearchFamily>& families,
                       const std::function<std::vector<SearchPlan>(const SearchFamily&)>& search) {
  std::vector<std::vector<SearchPlan>> found(families.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < families.size(); i = next++) found[i] = search(families[i]);
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < CpuCores(); ++i) others.emplace_back(work);
    work();
  }
  SearchResult result;
  for (std::vector<SearchPlan>& plans : found) {
    result.planned += static_cast<int>(plans.size());
    Sort(std::move(plans), result);
  }
  std::stable_sort(
      result.fitting.begin(), result.fitting.end(),
      [](const SearchPlan& a, const SearchPlan& b) { return a.tokens_per_second > b.tokens_per_second; });
  std::stable_sort(result.others.begin(), result.others.end(), LacksLess);
  return result;
}

}  // namespace

absl::StatusOr<SearchResult> SearchPlans(const LoadedRecipe& loaded, const ModelPlan& model,
                                         const Target& target, int max_hosts) {
  FTUNE_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(model.model_path));
  const std::vector<SearchFamily> families = SearchFamilies(loaded.recipe, config, target, max_hosts);
  const auto search = [&](Offload offload) {
    return SearchAll(families, [&, offload](const SearchFamily& family) {
      return FamilySearch(loaded, model, target, family, offload).Run();
    });
  };
  SearchResult in_memory = search(Offload::kNone);
  // Where there is room for them, the optimizer's states stay in memory.
  if (!in_memory.fitting.empty()) return in_memory;
  SearchResult on_disk = search(Offload::kOptimizer);
  on_disk.planned += in_memory.planned;
  return on_disk;
}

}  // namespace ftune
