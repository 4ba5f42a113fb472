// Draws the schedule of a recipe's pipeline.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cmd/command.h"
#include "cmd/recipe/load.h"
#include "cmd/run_options.h"

namespace ftune {

inline constexpr char kScheduleFlag[] = "--schedule";

// To `file`, whose name ends in .svg (a picture), .csv (to be edited and trained with) or .txt. Times are
// modelled costs, in forwards of the mean stage.
absl::StatusOr<CommandResult> DrawSchedule(const std::string& file, const LoadedRecipe& loaded,
                                           const ModelPlan& model);

}  // namespace ftune
