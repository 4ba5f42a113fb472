// A recipe's text, before it is read as YAML.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ftune {

// An error, with its line, unless `text` is UTF-8 without control characters and of a size that a recipe can
// have. `file` is only named.
absl::Status CheckRecipeText(std::string_view text, const std::string& file);

// The text of a file, not checked yet; of a file that is too large only so much that the check sees it.
// Errors have exit code 2.
absl::StatusOr<std::string> ReadRecipeText(const std::string& path);

}  // namespace ftune
