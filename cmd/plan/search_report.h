// What a search found: in words, as JSON, and as a recipe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cmd/command.h"
#include "cmd/plan/search.h"

namespace ftune {

inline constexpr char kSearchFlag[] = "--search";
inline constexpr char kWriteFlag[] = "--write";

// The ten fastest that fit, what others lack, and the whole plan of the first. Its recipe goes to the file
// `write`, if that is not empty. Exit status 3 where none fits.
absl::StatusOr<CommandResult> SearchAndReport(const LoadedRecipe& loaded, const ModelPlan& model,
                                              const Target& target, int max_hosts, const std::string& write);

}  // namespace ftune
