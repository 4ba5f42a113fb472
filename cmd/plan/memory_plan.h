// What the ranks of a recipe need, beside what there is.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cmd/command.h"
#include "cmd/recipe/load.h"
#include "cmd/run_options.h"

namespace ftune {

// The table in words and as JSON, complete also where the recipe does not fit: `exit` says so.
absl::StatusOr<CommandResult> PlanMemory(LoadedRecipe& loaded, const ModelPlan& model);

}  // namespace ftune
