// Files by patterns and in folders, in an order that people expect.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ftune {

// Digits compare as numbers (part-2 before part-10), folders before what has their name as a begin.
bool NaturallyBefore(std::string_view a, std::string_view b);

bool IsPattern(std::string_view path);

// The files, not folders, that the pattern matches, in natural order, each once. As a shell has it: * any
// text, ? a character, [a-z] one of these, all within a name and not at a leading dot; ** any number of
// folders. A folder that cannot be looked into is an error; nothing that matches is none.
absl::StatusOr<std::vector<std::string>> MatchFiles(const std::string& pattern);

// All files in the folder and those below it, in natural order; what begins with a dot is left out. Symbolic
// links are followed, but not into a folder that leads to them.
absl::StatusOr<std::vector<std::string>> FilesBelow(const std::string& folder);

}  // namespace ftune
