#include "data/pack/packing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"

namespace ftune {
namespace {

// Lengths as conversations have them: log-normal, from 5 to `capacity`.
std::vector<int64_t> Lengths(int64_t count, double mean, double sigma, int64_t capacity) {
  RandomSequence random(1, 2);
  std::vector<int64_t> lengths;
  while (static_cast<int64_t>(lengths.size()) < count) {
    const double u = random.Uniform() + 1e-9, v = random.Uniform();
    const double normal = std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v);
    const auto length = static_cast<int64_t>(mean * std::exp(sigma * normal - sigma * sigma / 2));
    if (length >= 5 && length <= capacity) lengths.push_back(length);
  }
  return lengths;
}

int64_t Used(const Pack& pack, const std::vector<int64_t>& lengths) {
  int64_t used = 0;
  for (const int64_t sample : pack) used += lengths[sample];
  return used;
}

TEST_CASE("every sample once, no pack too full, nearly no room wasted") {
  for (const double mean : {60.0, 250.0, 600.0, 900.0}) {
    for (const int64_t open_packs : {1, 4, 64}) {
      const int64_t capacity = 2048;
      const std::vector<int64_t> lengths = Lengths(3000, mean, 0.8, capacity);
      const std::vector<int64_t> order = Permutation(3000, 5, 6);
      const std::vector<Pack> packs = PlanPacks(lengths, order, capacity, {.open_packs = open_packs});
      std::vector<int64_t> seen;
      for (const Pack& pack : packs) {
        CHECK(Used(pack, lengths) <= capacity);
        CHECK_FALSE(pack.empty());
        seen.insert(seen.end(), pack.begin(), pack.end());
      }
      std::sort(seen.begin(), seen.end());
      std::vector<int64_t> all(3000);
      std::iota(all.begin(), all.end(), 0);
      CHECK(seen == all);
      const double fill = static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), int64_t{0})) /
                          static_cast<double>(packs.size() * capacity);
      INFO("mean ", mean, ", ", open_packs, " open packs: fill ", fill);
      if (open_packs == 64) CHECK(fill >= 0.95);
      CHECK(PlanPacks(lengths, order, capacity, {.open_packs = open_packs}) == packs);
    }
  }
}

TEST_CASE("packs stay near the order of the samples") {
  const std::vector<int64_t> lengths = Lengths(5000, 250, 0.8, 2048);
  const std::vector<int64_t> order = Permutation(5000, 5, 6);
  std::vector<int64_t> place(5000);
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int64_t>(i);
  const std::vector<Pack> packs = PlanPacks(lengths, order, 2048);
  int64_t previous = -1;
  for (const Pack& pack : packs) {
    CHECK(place[pack.front()] > previous);  // opened in order
    previous = place[pack.front()];
    for (size_t i = 1; i < pack.size(); ++i) CHECK(place[pack[i]] > place[pack[i - 1]]);
  }
}

TEST_CASE("small cases") {
  const std::vector<int64_t> lengths = {6, 5, 4, 10, 3, 2};
  const std::vector<int64_t> order = {0, 1, 2, 3, 4, 5};
  // 4 fits best behind 6; 10 is a pack of its own; 3 goes to 5, and 2 fills it up.
  CHECK(PlanPacks(lengths, order, 10) == std::vector<Pack>{{0, 2}, {1, 4, 5}, {3}});
  // One open pack: the fuller ones are closed.
  CHECK(PlanPacks(lengths, order, 10, {.open_packs = 1}) == std::vector<Pack>{{0}, {1, 2}, {3}, {4, 5}});
  CHECK(PlanPacks(lengths, std::vector<int64_t>{}, 10).empty());
  CHECK(OneSamplePacks(order) == std::vector<Pack>{{0}, {1}, {2}, {3}, {4}, {5}});
}

TEST_CASE("capacity buckets") {
  CHECK(CapacityBucket(1, 2048) == 64);
  CHECK(CapacityBucket(64, 2048) == 64);
  CHECK(CapacityBucket(65, 2048) == 128);
  CHECK(CapacityBucket(1025, 2048) == 2048);
  CHECK(CapacityBucket(600, 1000) == 1000);
  CHECK(CapacityBucket(10, 40) == 40);
}

}  // namespace
}  // namespace ftune
