#include "data/pack/packing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "base/random.h"
#include "data/pack/spread_packs.h"

namespace ftune {
namespace {

// Lengths as conversations have them: log-normal, from 5 to `capacity`.
std::vector<int32_t> Lengths(int64_t count, double mean, double sigma, int64_t capacity) {
  RandomSequence random(1, 2);
  std::vector<int32_t> lengths;
  while (static_cast<int64_t>(lengths.size()) < count) {
    const double u = random.Uniform() + 1e-9, v = random.Uniform();
    const double normal = std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v);
    const auto length = static_cast<int64_t>(mean * std::exp(sigma * normal - sigma * sigma / 2));
    if (length >= 5 && length <= capacity) lengths.push_back(static_cast<int32_t>(length));
  }
  return lengths;
}

std::vector<uint32_t> Order(size_t count, uint64_t seed = 5) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  RandomSequence random(seed, 6);
  Shuffle(std::span(order), random);
  return order;
}

std::vector<std::vector<uint32_t>> Lists(const PackList& packs) {
  std::vector<std::vector<uint32_t>> lists;
  for (int64_t p = 0; p < packs.size(); ++p) lists.emplace_back(packs[p].begin(), packs[p].end());
  return lists;
}

// Checks that every sample is in one pack and no pack is too full; gives the share that is filled.
double CheckPacks(const PackList& packs, const std::vector<int32_t>& lengths, int64_t capacity) {
  std::vector<int> times(lengths.size(), 0);
  for (int64_t p = 0; p < packs.size(); ++p) {
    REQUIRE_FALSE(packs[p].empty());
    int64_t used = 0;
    for (const uint32_t sample : packs[p]) {
      used += lengths.at(sample);
      ++times[sample];
    }
    REQUIRE(used <= capacity);
  }
  CHECK(packs.samples() == static_cast<int64_t>(lengths.size()));
  CHECK(std::all_of(times.begin(), times.end(), [](int n) { return n == 1; }));
  const auto tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  return static_cast<double>(tokens) / static_cast<double>(packs.size() * capacity);
}

TEST_CASE("every sample once, no pack too full, nearly no room wasted") {
  for (const double mean : {60.0, 250.0, 600.0, 900.0}) {
    for (const int64_t window : {500, 3000, 8192}) {
      const std::vector<int32_t> lengths = Lengths(20000, mean, 0.8, 2048);
      const std::vector<uint32_t> order = Order(lengths.size());
      RandomSequence random(7, 8), same(7, 8);
      const PackList packs = PlanPacks(lengths, order, 2048, &random, window);
      const double fill = CheckPacks(packs, lengths, 2048);
      INFO("mean ", mean, ", window ", window, ": fill ", fill);
      CHECK(fill >= 0.98);
      CHECK(PlanPacks(lengths, order, 2048, &same, window) == packs);
    }
  }
}

TEST_CASE("random lengths, capacities and sizes: the same properties") {
  RandomSequence random(11, 12);
  for (int round = 0; round < 300; ++round) {
    const auto capacity = static_cast<int64_t>(1 + random.Below(round % 3 == 0 ? 5000 : 70));
    // Some rounds have only samples of more than half a pack, or of exactly a whole one.
    const int64_t shortest = round % 5 == 0 ? capacity / 2 + 1 : round % 7 == 0 ? capacity : 1;
    std::vector<int32_t> lengths(random.Below(400));
    for (int32_t& length : lengths) {
      length = static_cast<int32_t>(shortest + static_cast<int64_t>(random.Below(capacity - shortest + 1)));
    }
    INFO("round ", round, ", capacity ", capacity, ", samples ", lengths.size());
    const PackList packs = PlanPacks(lengths, Order(lengths.size()), capacity, &random,
                                     static_cast<int64_t>(1 + random.Below(100)));
    CheckPacks(packs, lengths, capacity);
    if (shortest > capacity / 2) CHECK(packs.size() == static_cast<int64_t>(lengths.size()));
  }
}

// Best-fit decreasing as its definition says it.
int64_t SlowBestFitDecreasing(std::vector<int32_t> lengths, int64_t capacity) {
  std::sort(lengths.rbegin(), lengths.rend());
  std::multiset<int64_t> rooms;
  for (const int32_t length : lengths) {
    const auto best = rooms.lower_bound(length);
    int64_t room = capacity;
    if (best != rooms.end()) {
      room = *best;
      rooms.erase(best);
    }
    rooms.insert(room - length);
  }
  return static_cast<int64_t>(rooms.size());
}

TEST_CASE("as many packs as best-fit decreasing makes, whatever the order") {
  RandomSequence random(13, 14);
  for (const int64_t capacity : {1, 7, 63, 64, 65, 700, 4096, 262144, 262145}) {
    WindowPacker packer(capacity);
    for (int round = 0; round < 20; ++round) {
      std::vector<int32_t> lengths(1 + random.Below(300));
      for (int32_t& length : lengths) length = static_cast<int32_t>(1 + random.Below(capacity));
      std::vector<uint32_t> pack_of;
      const int64_t expected = SlowBestFitDecreasing(lengths, capacity);
      CHECK(packer.Pack(lengths, pack_of) == expected);
      Shuffle(std::span(lengths), random);
      CHECK(packer.Pack(lengths, pack_of) == expected);
    }
  }
}

// The fewest packs, by trying all: `rooms` of packs that are open.
int64_t FewestPacks(const std::vector<int32_t>& lengths, size_t next, std::vector<int64_t>& rooms,
                    int64_t capacity) {
  if (next == lengths.size()) return static_cast<int64_t>(rooms.size());
  int64_t fewest = INT64_MAX;
  for (size_t pack = 0; pack <= rooms.size(); ++pack) {
    const bool opened = pack == rooms.size();
    if (opened) rooms.push_back(capacity);
    if (rooms[pack] >= lengths[next]) {
      rooms[pack] -= lengths[next];
      fewest = std::min(fewest, FewestPacks(lengths, next + 1, rooms, capacity));
      rooms[pack] += lengths[next];
    }
    if (opened) {
      rooms.pop_back();
      break;
    }
  }
  return fewest;
}

TEST_CASE("never more packs than best fit; of few samples nearly always the fewest") {
  RandomSequence random(15, 16);
  int64_t best_fit_wasted = 0, wasted = 0;
  for (int round = 0; round < 300; ++round) {
    const auto capacity = static_cast<int64_t>(20 + random.Below(80));
    std::vector<int32_t> lengths(8);
    for (int32_t& length : lengths) length = static_cast<int32_t>(1 + random.Below(capacity * 2 / 3));
    std::vector<int64_t> rooms;
    const int64_t fewest = FewestPacks(lengths, 0, rooms, capacity);
    const int64_t best_fit = SlowBestFitDecreasing(lengths, capacity);
    const PackList packs = PlanPacks(lengths, Order(lengths.size()), capacity, nullptr);
    CheckPacks(packs, lengths, capacity);
    CHECK(packs.size() >= fewest);
    CHECK(packs.size() <= best_fit);
    wasted += packs.size() - fewest;
    best_fit_wasted += best_fit - fewest;
  }
  CHECK(best_fit_wasted >= 4);
  CHECK(wasted * 2 <= best_fit_wasted);
}

TEST_CASE("where best fit leaves room for what does not fit, the search does not") {
  const std::vector<int32_t> lengths = Lengths(7000, 180, 0.4, 512);  // three samples a pack
  const PackList packs = PlanPacks(lengths, Order(lengths.size()), 512, nullptr);
  const double fill = CheckPacks(packs, lengths, 512);
  const int64_t best_fit = SlowBestFitDecreasing(lengths, 512);
  INFO("fill ", fill, ", packs ", packs.size(), ", best fit ", best_fit);
  CHECK(fill >= 0.995);
  CHECK(packs.size() < best_fit);
}

TEST_CASE("the order of packs is random within a window, and windows keep theirs") {
  const std::vector<int32_t> lengths = Lengths(30000, 250, 0.8, 2048);
  const std::vector<uint32_t> order = Order(lengths.size());
  std::vector<int64_t> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int64_t>(i);
  RandomSequence random(1, 1);
  const PackList packs = PlanPacks(lengths, order, 2048, &random, 5000);
  std::vector<int64_t> longest;
  int64_t taken = 0;
  for (int64_t p = 0; p < packs.size(); ++p) {
    int32_t most = 0;
    for (const uint32_t sample : packs[p]) {
      most = std::max(most, lengths[sample]);
      CHECK(place[sample] / 5000 == taken / 5000);  // windows of 5000 samples, one after another
    }
    taken += static_cast<int64_t>(packs[p].size());
    longest.push_back(most);
  }
  // Best-fit decreasing opens packs from the longest sample to the shortest. Shuffled, about half of all
  // neighbours rise.
  int64_t rising = 0;
  for (size_t i = 1; i < longest.size(); ++i) rising += longest[i] > longest[i - 1];
  CHECK(rising > static_cast<int64_t>(longest.size()) * 2 / 5);
}

TEST_CASE("small cases") {
  const std::vector<int32_t> lengths = {6, 5, 4, 10, 3, 2};
  const std::vector<uint32_t> order = {0, 1, 2, 3, 4, 5};
  // 10; 6 and 4; 5, 3 and 2.
  CHECK(Lists(PlanPacks(lengths, order, 10, nullptr)) ==
        std::vector<std::vector<uint32_t>>{{3}, {0, 2}, {1, 4, 5}});
  CHECK(PlanPacks(lengths, {}, 10, nullptr).size() == 0);
  CHECK(Lists(PlanPacks(std::vector<int32_t>{10}, std::vector<uint32_t>{0}, 10, nullptr)) ==
        std::vector<std::vector<uint32_t>>{{0}});
  CHECK(Lists(OneSamplePacks(order)) == std::vector<std::vector<uint32_t>>{{0}, {1}, {2}, {3}, {4}, {5}});
}

TEST_CASE("spread packs: the same ones, with each group's share at every point") {
  // Three groups of unlike lengths, so that packing parts them: 1000 long, 4000 short samples, 500 of both.
  std::vector<int32_t> lengths;
  RandomSequence random(19, 20);
  for (int i = 0; i < 5500; ++i) {
    const bool is_long = i < 1000 || (i >= 5000 && i % 2 == 0);
    lengths.push_back(static_cast<int32_t>(is_long ? 700 + random.Below(300) : 20 + random.Below(60)));
  }
  const std::vector<uint32_t> ends = {1000, 5000, 5500};
  const PackList packs = PlanPacks(lengths, Order(lengths.size()), 1024, &random);
  const PackList spread = SpreadPacks(packs, ends);
  CheckPacks(spread, lengths, 1024);
  auto before = Lists(packs), after = Lists(spread);
  // The furthest that a group's share is from that of all samples.
  const auto uneven = [&](const std::vector<std::vector<uint32_t>>& lists) {
    double most = 0, all = 0;
    std::vector<double> taken(3, 0.0);
    for (const std::vector<uint32_t>& pack : lists) {
      for (const uint32_t sample : pack) ++taken[sample < 1000 ? 0 : sample < 5000 ? 1 : 2];
      all += static_cast<double>(pack.size());
      const double share = all / 5500;
      most = std::max({most, std::abs(taken[0] / 1000 - share), std::abs(taken[1] / 4000 - share),
                       std::abs(taken[2] / 500 - share)});
    }
    return most;
  };
  INFO("uneven before ", uneven(before), ", after ", uneven(after));
  CHECK(uneven(after) < 0.02);
  CHECK(uneven(before) > 3 * uneven(after));
  std::sort(before.begin(), before.end());
  std::sort(after.begin(), after.end());
  CHECK(before == after);
}

TEST_CASE("grouped by length: batches of similar lengths in a random order, every sample once") {
  const std::vector<int32_t> lengths = Lengths(10001, 250, 0.8, 2048);
  std::vector<uint32_t> order = Order(lengths.size());
  const std::vector<uint32_t> before = order;
  RandomSequence random(3, 3);
  GroupByLength(lengths, 16, random, order, 2000);
  CheckPacks(OneSamplePacks(order), lengths, 2048);
  // Tokens that padding every batch to its longest sample would waste, before and after.
  const auto padding = [&](const std::vector<uint32_t>& samples) {
    int64_t waste = 0;
    for (size_t begin = 0; begin < samples.size(); begin += 16) {
      const size_t end = std::min(begin + 16, samples.size());
      int64_t longest = 0, sum = 0;
      for (size_t i = begin; i < end; ++i) {
        longest = std::max<int64_t>(longest, lengths[samples[i]]);
        sum += lengths[samples[i]];
      }
      waste += longest * static_cast<int64_t>(end - begin) - sum;
    }
    return waste;
  };
  CHECK(padding(order) * 20 < padding(before));
  int64_t rising = 0;
  for (size_t b = 1; b < order.size() / 16; ++b)
    rising += lengths[order[b * 16]] > lengths[order[b * 16 - 16]];
  CHECK(rising > 250);  // of 625 batches
  CHECK(rising < 375);
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
