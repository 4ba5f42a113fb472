// The recipe of a run that goes on: what may change, and how what follows from the mesh is found again.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cmd/recipe/load.h"
#include "cmd/recipe/resolve.h"

namespace ftune {

// What there is for a recipe: its hosts, for example.
using EnvironmentFinder = std::function<absl::StatusOr<Environment>(const LoadedRecipe& loaded)>;

// The recipe.yaml that a run has written (ToYaml of a LoadedRecipe): `recipe` as it says, `given` with the
// values that its comments name. What was not given has no place.
absl::StatusOr<LoadedRecipe> LoadRunRecipe(std::string_view text, const std::string& file);

// The same recipe with `overrides`, to be resolved on this machine. Values that a run may change and that
// were derived are derived again; the others stay. Where overrides change the mesh, what the recipe says of
// it elsewhere gives way: the batch of all ranks stays, and its parts follow.
absl::StatusOr<LoadedRecipe> TakeUpRecipe(std::string_view text, const std::string& file,
                                          const std::vector<std::string>& overrides,
                                          const EnvironmentFinder& environment);

// `given` is a recipe for the run of `run`, not resolved: what it leaves to ftune stays as the run has it,
// where a run may not change it.
absl::Status FollowRun(LoadedRecipe& given, const LoadedRecipe& run, const EnvironmentFinder& environment);

// The ranks of parallel.data, and the parts of the batch, where there are not the ranks that the recipe
// names: the batch of all ranks stays.
absl::Status FitToMesh(LoadedRecipe& loaded, const EnvironmentFinder& environment);

// An error that has all keys whose values a run may not change and that are not those of `run`, the recipe
// in `file`. Both are resolved. Keys `by_content` may say that the same content is elsewhere now: somebody
// else checks what is there.
absl::Status CheckMayResume(const LoadedRecipe& loaded, const Recipe& run, const std::string& file,
                            const std::vector<std::string>& by_content = {});

}  // namespace ftune
