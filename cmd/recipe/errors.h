// Several errors in one status: a recipe reports all that is wrong with it at once.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "base/error.h"

namespace ftune {

// Ok where there are none. Otherwise exit code 2 and one message a line: the file's in the order of their
// lines, then those of the command line. (Sorts what it is given.)
absl::Status RecipeStatus(std::vector<ErrorDetail> errors);

// What RecipeStatus was given, sorted; of another status its one detail, if it has one.
std::vector<ErrorDetail> RecipeErrorsOf(const absl::Status& status);

// The `file` of an error in an override.
inline constexpr char kCommandLine[] = "command line";

}  // namespace ftune
