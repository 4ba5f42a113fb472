// Which samples share a pack.
#pragma once

#include <cstdint>
#include <span>

#include "base/random.h"
#include "data/pack/pack_list.h"
#include "data/pack/room_index.h"

namespace ftune {

// Samples are packed a window of the epoch's order at a time: large enough that the few samples left over at
// its end do not count, small enough that what an epoch begins with does not depend on all of it.
inline constexpr int64_t kPackingWindow = 8192;     // samples at least, and
inline constexpr int64_t kPackingWindowPacks = 64;  // packs' worth of tokens at least

// Packs samples of a window by best-fit decreasing: from the longest to the shortest, each into the pack that
// it leaves the least room in; where none has room for it, into a new one (Johnson, "Near-optimal bin packing
// algorithms", 1973). n samples cost O(n log n).
class WindowPacker {
 public:
  explicit WindowPacker(int64_t capacity) : capacity_(capacity), rooms_(capacity) {}

  // Of samples with these lengths (≤ capacity): the pack of each, counted from 0 in the order in which they
  // are opened. Returns their number, which depends on the lengths only, not on their order.
  int64_t Pack(std::span<const int32_t> lengths, std::vector<uint32_t>& pack_of);

 private:
  int64_t capacity_;
  RoomIndex rooms_;
  std::vector<uint64_t> by_length_;
};

// Packs samples order[0], order[1], … of lengths[order[i]] tokens, none above `capacity`, window by window:
// by best-fit decreasing, or where that takes more packs than the tokens need, by a search (SlackPacker), if
// that takes fewer.
// Each entry of `order` comes exactly once. With `random` the packs of a window stand in a random order;
// without, in that of their longest samples.
PackList PlanPacks(std::span<const int32_t> lengths, std::span<const uint32_t> order, int64_t capacity,
                   RandomSequence* random, int64_t window = kPackingWindow);

// Packs of one sample each, in order.
PackList OneSamplePacks(std::span<const uint32_t> order);

// Orders samples so that each `batch` of them, from the first on, are of similar lengths: a window of the
// order is sorted by length, and its batches put into a random order. The last batch, if short, stays last.
void GroupByLength(std::span<const int32_t> lengths, int64_t batch, RandomSequence& random,
                   std::vector<uint32_t>& order, int64_t window = kPackingWindow);

// Capacity for rows of up to `length` tokens where samples are not packed: 64, 128, 256, … or `limit`, the
// smallest that holds them. Few shapes, so that buffers and plans are re-used. length ≤ limit.
int64_t CapacityBucket(int64_t length, int64_t limit);

}  // namespace ftune
