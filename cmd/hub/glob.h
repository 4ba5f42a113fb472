// File name patterns as the datasets of the hub have them.
#pragma once

#include <string_view>

namespace ftune {

// Whether `path` as a whole matches: * and ? within a name, [a-z] and [!x], ** for any number of folders.
bool MatchesGlob(std::string_view pattern, std::string_view path);

}  // namespace ftune
