// A recipe's text as it lies in a file.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace ftune {

// UTF-8 text without control characters, of a size that a recipe can have; anything else is an error that
// says so.
absl::StatusOr<std::string> ReadRecipeText(const std::string& path);

}  // namespace ftune
