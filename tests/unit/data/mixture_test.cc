#include "data/loader/mixture.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace ftune {
namespace {

// Entries of these sizes, one behind the other.
std::vector<EntryRange> Ranges(const std::vector<uint32_t>& sizes, const std::vector<EntryMix>& mix) {
  std::vector<EntryRange> ranges;
  uint32_t begin = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    ranges.push_back({begin, begin + sizes[i], mix[i]});
    begin += sizes[i];
  }
  return ranges;
}

size_t EntryOf(const std::vector<EntryRange>& ranges, uint32_t sample) {
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (sample >= ranges[i].begin && sample < ranges[i].end) return i;
  }
  return ranges.size();
}

TEST_CASE("an epoch is a permutation that depends on the seed and the epoch") {
  const auto ranges = Ranges({40, 60}, {{}, {}});
  for (const MixOrder mix : {MixOrder::kConcat, MixOrder::kInterleave}) {
    const std::vector<uint32_t> order = EpochOrder(ranges, mix, 1, 0);
    std::vector<uint32_t> sorted = order, all(100);
    std::sort(sorted.begin(), sorted.end());
    std::iota(all.begin(), all.end(), 0u);
    CHECK(sorted == all);
    CHECK(order != all);
    CHECK(EpochOrder(ranges, mix, 1, 0) == order);
    CHECK(EpochOrder(ranges, mix, 1, 1) != order);
    CHECK(EpochOrder(ranges, mix, 2, 0) != order);
  }
}

TEST_CASE("weights repeat samples or hand them round") {
  const auto ranges = Ranges({10, 10, 20, 10, 3}, {{1.0}, {2.0}, {0.25}, {0.0}, {0.1}});
  for (const MixOrder mix : {MixOrder::kConcat, MixOrder::kInterleave}) {
    std::map<uint32_t, int64_t> counts;
    for (int64_t epoch = 0; epoch < 12; ++epoch) {
      const std::vector<uint32_t> order = EpochOrder(ranges, mix, 9, epoch);
      CHECK(order.size() == 10 + 20 + 5 + 0 + 1);
      for (const uint32_t s : order) ++counts[s];
    }
    for (uint32_t s = 0; s < 53; ++s) {
      CHECK(counts[s] == (s < 10 ? 12 : s < 20 ? 24 : s < 40 ? 3 : s < 50 ? 0 : 4));
    }
  }
}

TEST_CASE("an entry's epochs bound how often the run takes each of its samples") {
  for (const double weight : {1.0, 0.3, 0.75, 1.5, 2.0}) {
    const auto ranges = Ranges({20, 13}, {{1.0}, {.weight = weight, .epochs = 2}});
    std::map<uint32_t, int64_t> counts;
    for (int64_t epoch = 0; epoch < 10; ++epoch) {
      const std::vector<uint32_t> order = EpochOrder(ranges, MixOrder::kConcat, 4, epoch);
      CHECK(static_cast<int64_t>(order.size()) ==
            EntrySamples(ranges[0], epoch) + EntrySamples(ranges[1], epoch));
      for (const uint32_t s : order) ++counts[s];
    }
    for (uint32_t s = 0; s < 33; ++s) CHECK(counts[s] == (s < 20 ? 10 : 2));
  }
  // Half an epoch: some samples once, the others never. Then there is nothing left.
  const auto half = Ranges({10}, {{.weight = 0.5, .epochs = 0.5}});
  CHECK(EpochOrder(half, MixOrder::kConcat, 4, 0).size() == 5);
  CHECK(EpochOrder(half, MixOrder::kConcat, 4, 1).empty());
  CHECK(EpochOrder(half, MixOrder::kInterleave, 4, 1000000).empty());
}

TEST_CASE("interleave keeps the proportion at every point; concat does so only on average") {
  const auto ranges = Ranges({1000, 100, 500}, {{1.0}, {3.0}, {0.2}});
  const std::vector<double> shares = {1000.0 / 1400, 300.0 / 1400, 100.0 / 1400};
  const auto worst = [&](MixOrder mix) {
    const std::vector<uint32_t> order = EpochOrder(ranges, mix, 3, 2);
    std::vector<double> taken(3, 0);
    double most = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      ++taken[EntryOf(ranges, order[i])];
      for (size_t e = 0; e < 3; ++e) {
        most = std::max(most, std::abs(taken[e] - shares[e] * static_cast<double>(i + 1)));
      }
    }
    return most;
  };
  CHECK(worst(MixOrder::kInterleave) < 2);
  CHECK(worst(MixOrder::kConcat) > 4);
}

TEST_CASE("interleaved entries of the same size have orders of their own") {
  const auto ranges = Ranges({50, 50}, {{}, {}});
  const std::vector<uint32_t> order = EpochOrder(ranges, MixOrder::kInterleave, 3, 0);
  int64_t same = 0;
  for (size_t i = 0; i + 1 < order.size(); i += 2) same += order[i] % 50 == order[i + 1] % 50;
  CHECK(same < 10);
}

}  // namespace
}  // namespace ftune
