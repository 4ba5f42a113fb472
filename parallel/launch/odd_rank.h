// Which of several ranks that stand still the others wait for.
#pragma once

#include <optional>
#include <vector>

#include "parallel/launch/pulse.h"

namespace ftune {

// By what the ranks showed last, in their order. Who waits in a call waits for those of its group that have
// not come to it: they are in no call, in one of another group or in an earlier one of the same. The odd one
// is that to which most of these chains lead and who waits for nobody itself. Where no rank waits for another
// it is the one that has been still for longest; nothing where they wait for each other in a circle, or where
// all are in one call.
std::optional<int> OddRank(const std::vector<Pulse>& pulses);

}  // namespace ftune
