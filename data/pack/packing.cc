#include "data/pack/packing.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "data/pack/slack_packer.h"

namespace ftune {
namespace {

// The window of `order` that begins at `begin`: its end. A rest of less than half a window belongs to the
// window before it.
size_t WindowEnd(std::span<const int32_t> lengths, std::span<const uint32_t> order, size_t begin,
                 int64_t capacity, int64_t window) {
  const auto size = static_cast<size_t>(window);
  const int64_t tokens = kPackingWindowPacks * capacity;
  int64_t sum = 0;
  size_t end = begin;
  while (end < order.size() && (end - begin < size || sum < tokens)) sum += lengths[order[end++]];
  return order.size() - end < (end - begin) / 2 ? order.size() : end;
}

// The items of each pack, pack by pack: items[begins[p], begins[p + 1]).
struct ByPack {
  std::vector<uint32_t> begins;
  std::vector<uint32_t> items;
};

void Group(const std::vector<uint32_t>& pack_of, int64_t packs, ByPack& result) {
  result.begins.assign(static_cast<size_t>(packs) + 1, 0);
  for (const uint32_t pack : pack_of) ++result.begins[pack + size_t{1}];
  std::partial_sum(result.begins.begin(), result.begins.end(), result.begins.begin());
  result.items.resize(pack_of.size());
  // Fills each pack from its end, and so leaves begins where they belong.
  for (size_t p = 0; p < static_cast<size_t>(packs); ++p) result.begins[p] = result.begins[p + 1];
  for (size_t i = pack_of.size(); i-- > 0;) {
    result.items[--result.begins[pack_of[i]]] = static_cast<uint32_t>(i);
  }
}

// How often the search for a pack's samples may turn back. More is not always better: it uses up early what
// would fit well later.
constexpr std::array<int64_t, 2> kSearchTurns = {100, 1000};

// The packs of a window: best fit, or where that is not the least number that so many tokens need, the best
// of it and of searches. pack_of, of WindowPacker::Pack.
class BestPacker {
 public:
  explicit BestPacker(int64_t capacity) : capacity_(capacity), best_fit_(capacity), search_(capacity) {}

  int64_t Pack(std::span<const int32_t> lengths, std::vector<uint32_t>& pack_of) {
    int64_t packs = best_fit_.Pack(lengths, pack_of);
    const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    for (const int64_t turns : kSearchTurns) {
      if ((packs - 1) * capacity_ < tokens) break;  // fewer do not hold them
      const int64_t other = search_.Pack(lengths, turns, other_);
      if (other >= packs) continue;
      packs = other;
      std::swap(pack_of, other_);
    }
    return packs;
  }

 private:
  int64_t capacity_;
  WindowPacker best_fit_;
  SlackPacker search_;
  std::vector<uint32_t> other_;
};

}  // namespace

int64_t WindowPacker::Pack(std::span<const int32_t> lengths, std::vector<uint32_t>& pack_of) {
  by_length_.resize(lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) {
    by_length_[i] = static_cast<uint64_t>(capacity_ - lengths[i]) << 32 | i;
  }
  std::sort(by_length_.begin(), by_length_.end());
  pack_of.resize(lengths.size());
  rooms_.Clear();
  uint32_t packs = 0;
  for (const uint64_t key : by_length_) {
    const auto i = static_cast<uint32_t>(key);
    int64_t room = capacity_;
    uint32_t pack = packs;
    if (!rooms_.TakeBest(lengths[i], &room, &pack)) {
      room = capacity_;
      pack = packs++;
    }
    pack_of[i] = pack;
    rooms_.Add(room - lengths[i], pack);
  }
  return packs;
}

PackList PlanPacks(std::span<const int32_t> lengths, std::span<const uint32_t> order, int64_t capacity,
                   RandomSequence* random, int64_t window) {
  PackList list;
  list.Reserve(static_cast<int64_t>(order.size()));
  BestPacker packer(capacity);
  std::vector<int32_t> window_lengths;
  std::vector<uint32_t> pack_of, turns;
  ByPack by_pack;
  for (size_t begin = 0, end; begin < order.size(); begin = end) {
    end = WindowEnd(lengths, order, begin, capacity, window);
    window_lengths.clear();
    for (size_t i = begin; i < end; ++i) window_lengths.push_back(lengths[order[i]]);
    const int64_t packs = packer.Pack(window_lengths, pack_of);
    Group(pack_of, packs, by_pack);

    turns.resize(static_cast<size_t>(packs));
    std::iota(turns.begin(), turns.end(), 0u);
    if (random != nullptr) Shuffle(std::span(turns), *random);
    for (const uint32_t pack : turns) {
      for (size_t i = by_pack.begins[pack]; i < by_pack.begins[pack + size_t{1}]; ++i) {
        list.AddSample(order[begin + by_pack.items[i]]);
      }
      list.ClosePack();
    }
  }
  return list;
}

PackList OneSamplePacks(std::span<const uint32_t> order) {
  PackList list;
  list.Reserve(static_cast<int64_t>(order.size()));
  for (const uint32_t sample : order) {
    list.AddSample(sample);
    list.ClosePack();
  }
  return list;
}

void GroupByLength(std::span<const int32_t> lengths, int64_t batch, RandomSequence& random,
                   std::vector<uint32_t>& order, int64_t window) {
  const auto size = static_cast<size_t>(batch);
  const size_t step = (static_cast<size_t>(window) + size - 1) / size * size;
  std::vector<uint32_t> sorted;
  for (size_t begin = 0, end; begin < order.size(); begin = end) {
    end = std::min(order.size(), begin + step);
    sorted.assign(order.begin() + begin, order.begin() + end);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](uint32_t a, uint32_t b) { return lengths[a] > lengths[b]; });
    std::vector<uint32_t> turns(sorted.size() / size);
    std::iota(turns.begin(), turns.end(), 0u);
    Shuffle(std::span(turns), random);
    auto to = order.begin() + begin;
    for (const uint32_t turn : turns) {
      to = std::copy_n(sorted.begin() + static_cast<int64_t>(turn) * batch, size, to);
    }
    std::copy(sorted.begin() + static_cast<int64_t>(turns.size() * size), sorted.end(), to);
  }
}

int64_t CapacityBucket(int64_t length, int64_t limit) {
  int64_t capacity = 64;
  while (capacity < length) capacity *= 2;
  return std::min(capacity, limit);
}

}  // namespace ftune
