// Runs the ranks of a recipe dry.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "cmd/plan/plan_result.h"
#include "cmd/recipe/load.h"
#include "cmd/run_options.h"

namespace ftune {

struct PlanOptions {
  std::optional<Target> target;  // what the recipe was resolved for, if not for this host
  PlanDepth depth = PlanDepth::kWhole;
  bool traced = false;  // with the trace of each role
  PackContent content = PackContent::kFull;
  std::optional<TypicalPack> typical;  // instead
};

// Complete also where the recipe does not fit. An error where it cannot be: of the model's config.json, or of
// the recipe's mesh.
absl::StatusOr<PlanResult> MakePlan(LoadedRecipe& loaded, const ModelPlan& model,
                                    const PlanOptions& options = {});

}  // namespace ftune
