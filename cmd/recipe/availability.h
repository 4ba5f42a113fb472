// What ftune cannot do: methods outside its scope, and keys of the recipe that this version does not act on.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "cmd/recipe/load.h"

namespace ftune {

// Refuses, all at once and by name, what the recipe asks of this version in vain. Works before and after
// Resolve.
absl::Status CheckAvailable(const LoadedRecipe& loaded);

// The method that ftune does not have which a key (its last component) belongs to: "preference training (DPO,
// …)".
std::optional<std::string> MissingMethod(std::string_view word);

}  // namespace ftune
