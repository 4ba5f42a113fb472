// Which samples share a pack.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ftune {

using Pack = std::vector<int64_t>;  // indices of samples, in the order they stand in the pack

struct PackingOptions {
  // Packs that samples are still added to. More fill better; fewer keep the order of the packs closer to the
  // order of the samples.
  int64_t open_packs = 64;
};

// Puts samples order[0], order[1], … of lengths[order[i]] tokens (≤ capacity) into packs of at most
// `capacity` tokens: each into the open pack that it leaves the least room in (online best fit with bounded
// space; Csirik and Johnson, "Bounded space on-line bin packing: best is better than first", 1991). Where
// none has room, a pack is opened, and the fullest is closed if there are too many. Each entry of `order`
// comes exactly once. Packs stand in the order in which they were opened. Pure: the same arguments give the
// same packs.
std::vector<Pack> PlanPacks(std::span<const int64_t> lengths, std::span<const int64_t> order,
                            int64_t capacity, const PackingOptions& options = {});

// Packs of one sample each, in order.
std::vector<Pack> OneSamplePacks(std::span<const int64_t> order);

// Capacity for rows of up to `length` tokens where samples are not packed: 64, 128, 256, … or `limit`, the
// smallest that holds them. Few shapes, so that buffers and plans are re-used. length ≤ limit.
int64_t CapacityBucket(int64_t length, int64_t limit);

}  // namespace ftune
