// Looks for the fastest way to run a recipe that fits.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cmd/plan/plan_result.h"
#include "cmd/plan/search_space.h"

namespace ftune {

// One that was planned. Its step time and its peak are of a short plan (PlanDepth::kShort).
struct SearchPlan {
  SearchChoice choice;
  int64_t ranks = 1;
  double seconds = 0.0;
  double tokens_per_second = 0.0;
  double mfu = 0.0;
  int64_t needs = 0;  // bytes of the rank that needs most
  int64_t capacity = 0;
  std::string why_not;  // empty: it fits
};

struct SearchResult {
  std::vector<SearchPlan> fitting;  // the fastest first
  std::vector<SearchPlan> others;   // the one that lacks least first; of each mesh the one that lacks least
  int planned = 0;
};

// `loaded` is resolved for the target, whose device has times. max_hosts 0: as many as the target has.
absl::StatusOr<SearchResult> SearchPlans(const LoadedRecipe& loaded, const ModelPlan& model,
                                         const Target& target, int max_hosts);

}  // namespace ftune
