// Keys of other tools' recipes: where the same thing is said in ftune's.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ftune {

// What to write instead of another tool's key (its last component); nothing where it is none that is known.
std::optional<std::string> ForeignKeyHint(std::string_view word);

}  // namespace ftune
