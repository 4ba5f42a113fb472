#include "data/pack/packing.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace ftune {

std::vector<Pack> PlanPacks(std::span<const int64_t> lengths, std::span<const int64_t> order,
                            int64_t capacity, const PackingOptions& options) {
  std::vector<Pack> packs;
  std::set<std::pair<int64_t, size_t>> open;  // (room, pack); of equal room the oldest pack first
  for (const int64_t sample : order) {
    const int64_t length = lengths[static_cast<size_t>(sample)];
    const auto fit = open.lower_bound({length, 0});
    int64_t room = capacity;
    size_t pack = packs.size();
    if (fit != open.end()) {
      std::tie(room, pack) = *fit;
      open.erase(fit);
    } else {
      packs.emplace_back();
      if (static_cast<int64_t>(open.size()) >= options.open_packs) open.erase(open.begin());
    }
    packs[pack].push_back(sample);
    open.insert({room - length, pack});
  }
  return packs;
}

std::vector<Pack> OneSamplePacks(std::span<const int64_t> order) {
  std::vector<Pack> packs;
  packs.reserve(order.size());
  for (const int64_t sample : order) packs.push_back({sample});
  return packs;
}

int64_t CapacityBucket(int64_t length, int64_t limit) {
  int64_t capacity = 64;
  while (capacity < length) capacity *= 2;
  return std::min(capacity, limit);
}

}  // namespace ftune
