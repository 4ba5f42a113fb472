// "Did you mean": the known word that is nearest to a misspelt one.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ftune {

// How many insertions, deletions, replacements and swaps of neighbours turn one into the other (optimal
// string alignment; Damerau 1964). `-` and `_`, and upper and lower case, count as equal.
int EditDistance(std::string_view a, std::string_view b);

// Whether `distance` errors are few enough for `word` to be a misspelt `candidate`.
bool IsMisspelling(std::string_view word, std::string_view candidate, int distance);

// The nearest of `candidates` that `word` may be a misspelling of; the first of several.
std::optional<std::string> Nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace ftune
