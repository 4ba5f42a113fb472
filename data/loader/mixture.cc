#include "data/loader/mixture.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "base/random.h"

namespace ftune {
namespace {

// Purposes of the draws, kept apart from each other and, by their high bits, from those of other layers.
constexpr uint64_t kShufflePurpose = 0x6f72646572000000;  // "order": + epoch
constexpr uint64_t kTurnsPurpose = 0x7475726e73000000;    // "turns": + entry
constexpr uint64_t kEntryPurpose = 0x656e747279000000;    // "entry": the seed of an entry's own order

// Draws are counted over the epochs: draw t of an entry is sample t % size of one permutation.
struct Draws {
  int64_t begin = 0;
  int64_t end = 0;
};

Draws DrawsOf(const EntryRange& entry, int64_t epoch) {
  const int64_t size = entry.end - entry.begin;
  if (size == 0 || entry.mix.weight == 0) return {};
  const int64_t wanted = std::max<int64_t>(1, std::llround(entry.mix.weight * static_cast<double>(size)));
  int64_t limit = std::numeric_limits<int64_t>::max();
  if (entry.mix.epochs) {
    limit = std::max<int64_t>(1, std::llround(*entry.mix.epochs * static_cast<double>(size)));
  }
  if (epoch > limit / wanted) return {};
  const int64_t begin = epoch * wanted;
  return {begin, begin + std::min(wanted, limit - begin)};
}

// Adds the samples of one entry that take part in the epoch, in no order that matters.
void AddEntry(const EntryRange& entry, int64_t epoch, uint64_t seed, uint64_t purpose,
              std::vector<uint32_t>& chosen) {
  const Draws draws = DrawsOf(entry, epoch);
  const int64_t size = entry.end - entry.begin;
  int64_t count = draws.end - draws.begin;
  for (; count >= size && size > 0; count -= size) {
    const size_t old = chosen.size();
    chosen.resize(old + static_cast<size_t>(size));
    std::iota(chosen.begin() + static_cast<int64_t>(old), chosen.end(), entry.begin);
  }
  if (count == 0) return;
  std::vector<uint32_t> turns(static_cast<size_t>(size));
  std::iota(turns.begin(), turns.end(), entry.begin);
  RandomSequence random(seed, purpose);
  Shuffle(std::span(turns), random);
  for (int64_t i = 0; i < count; ++i) chosen.push_back(turns[(draws.begin + i) % size]);
}

void ShuffleEpoch(std::vector<uint32_t>& order, uint64_t seed, int64_t epoch) {
  RandomSequence random(seed, kShufflePurpose + static_cast<uint64_t>(epoch));
  Shuffle(std::span(order), random);
}

uint64_t EntrySeed(uint64_t seed, size_t entry) {
  const auto block = Philox(seed, entry, kEntryPurpose);
  return static_cast<uint64_t>(block[0]) << 32 | block[1];
}

// Item j of a list of n stands at (j + 1/2) / n of the whole; of equal places the earlier list is first.
std::vector<uint32_t> MergeEvenly(const std::vector<std::vector<uint32_t>>& lists) {
  size_t total = 0;
  for (const std::vector<uint32_t>& list : lists) total += list.size();
  std::vector<uint32_t> order;
  order.reserve(total);
  std::vector<size_t> next(lists.size(), 0);
  using Turn = std::pair<double, size_t>;  // place, list
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> queue;
  const auto push = [&](size_t list) {
    if (next[list] == lists[list].size()) return;
    queue.emplace((static_cast<double>(next[list]) + 0.5) / static_cast<double>(lists[list].size()), list);
  };
  for (size_t list = 0; list < lists.size(); ++list) push(list);
  while (!queue.empty()) {
    const size_t list = queue.top().second;
    queue.pop();
    order.push_back(lists[list][next[list]++]);
    push(list);
  }
  return order;
}

}  // namespace

int64_t EntrySamples(const EntryRange& entry, int64_t epoch) {
  const Draws draws = DrawsOf(entry, epoch);
  return draws.end - draws.begin;
}

std::vector<uint32_t> EpochOrder(std::span<const EntryRange> entries, MixOrder mix, uint64_t seed,
                                 int64_t epoch) {
  if (mix == MixOrder::kConcat) {
    std::vector<uint32_t> order;
    for (size_t i = 0; i < entries.size(); ++i) {
      AddEntry(entries[i], epoch, seed, kTurnsPurpose + i, order);
    }
    ShuffleEpoch(order, seed, epoch);
    return order;
  }
  std::vector<std::vector<uint32_t>> lists(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    AddEntry(entries[i], epoch, seed, kTurnsPurpose + i, lists[i]);
    ShuffleEpoch(lists[i], EntrySeed(seed, i), epoch);
  }
  return MergeEvenly(lists);
}

}  // namespace ftune
