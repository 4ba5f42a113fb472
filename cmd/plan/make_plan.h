// Runs the ranks of a recipe dry.
#pragma once

#include "absl/status/statusor.h"
#include "cmd/plan/plan_result.h"
#include "cmd/recipe/load.h"
#include "cmd/run_options.h"

namespace ftune {

// Complete also where the recipe does not fit. An error where it cannot be: of the model's config.json, or of
// the recipe's mesh. `traced`: with the trace of each role.
absl::StatusOr<PlanResult> MakePlan(LoadedRecipe& loaded, const ModelPlan& model, bool traced);

}  // namespace ftune
