// Ranks that wait for each other.
#pragma once

#include <functional>
#include <vector>

namespace ftune {

// The shortest circle through `self` of which each rank waits for the next and the last for `self`, from
// `self` on; empty if there is none.
std::vector<int> FindCircle(int self, int ranks, const std::function<bool(int from, int to)>& waits_for);

}  // namespace ftune
