// Where a block's flat trainable tensor is cut into the shares of the ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/block.h"
#include "engine/optim/rules.h"

namespace ftune {

// Elements of each rank's share: as even as the rules allow. What a rule updates together stays together;
// elsewhere cuts are at multiples of kCutUnit.
inline constexpr int64_t kCutUnit = 16;
std::vector<int64_t> CutTrainable(const Block& block, const UpdateRules& rules, int ranks);

}  // namespace ftune
