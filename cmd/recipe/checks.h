// What the keys of a recipe must be to each other.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "cmd/recipe/load.h"

namespace ftune {

// Errors of keys that contradict each other. Rules about a key in `wrong` (canonical names) are left out: its
// value could not be read.
std::vector<ErrorDetail> CheckRecipe(const LoadedRecipe& loaded, const std::set<std::string>& wrong);

}  // namespace ftune
