// The order of packs that hold samples of several groups.
#pragma once

#include <cstdint>
#include <span>

#include "data/pack/pack_list.h"

namespace ftune {

// The same packs in an order in which, at every point, about the same share of each group's samples has been
// taken. Sample s is of the first group g with s < ends[g]; ends rise. Of the next 512 packs, as they come,
// the one is next that leaves the shares the most alike.
PackList SpreadPacks(const PackList& packs, std::span<const uint32_t> ends);

}  // namespace ftune
