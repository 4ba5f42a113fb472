// Which cores each rank of a host runs on.
#pragma once

#include <vector>

namespace ftune {

// The cores this process may run on, ascending.
std::vector<int> AllowedCores();

// `cores` cut into neighbouring shares, of which the first are one larger where they do not come out even.
// With more ranks than cores several ranks share one.
std::vector<std::vector<int>> ShareCores(const std::vector<int>& cores, int ranks);

}  // namespace ftune
