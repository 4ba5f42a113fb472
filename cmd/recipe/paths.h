// Paths in a recipe, by the table of keys: those of this disk, made absolute or looked at.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cmd/recipe/load.h"
#include "cmd/recipe/recipe.h"

namespace ftune {

// Relative paths as they are from the working directory, so that the recipe means the same from any other.
// No "." and no slash at the end is left. Ids of the hub, names, "-" and output_dir stay as they are.
Recipe WithAbsolutePaths(Recipe recipe);
LoadedRecipe WithAbsolutePaths(LoadedRecipe loaded);
std::string AbsolutePath(const std::string& path);

// Nothing that says where content is: no path, nor which part of the hub.
Recipe WithoutPlaces(Recipe recipe);

// An error that has all of the recipe's inputs which are not there, and says how the command line names them
// where they are now. model.init_from is left out: not every run that goes on needs it.
absl::Status CheckInputsAreThere(const LoadedRecipe& loaded);

// The same of one key. `why` it is needed.
absl::Status InputIsGone(const LoadedRecipe& loaded, const std::string& key, const std::string& path,
                         const std::string& why);

}  // namespace ftune
