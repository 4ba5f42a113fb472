// Covering arrays: few points of a large grid that together have every pair of values of every two axes.
#pragma once

#include <functional>
#include <set>
#include <tuple>
#include <vector>

#include "base/random.h"

namespace ftune::testing {

// A value, by its number, for each axis.
using GridPoint = std::vector<int>;

// `sizes` are the axes' numbers of values. Only points that `valid` accepts; pairs that no such point has are
// left out. The same points each time for a seed.
inline std::vector<GridPoint> PairwisePoints(const std::vector<int>& sizes,
                                             const std::function<bool(const GridPoint&)>& valid,
                                             uint64_t seed) {
  constexpr int kCandidates = 60, kFruitless = 40;
  RandomSequence random(seed, 0);
  using Pair = std::tuple<size_t, int, size_t, int>;
  std::set<Pair> covered;
  const auto fresh = [&](const GridPoint& point) {
    std::vector<Pair> pairs;
    for (size_t a = 0; a < point.size(); ++a) {
      for (size_t b = a + 1; b < point.size(); ++b) {
        const Pair pair = {a, point[a], b, point[b]};
        if (!covered.contains(pair)) pairs.push_back(pair);
      }
    }
    return pairs;
  };
  std::vector<GridPoint> points;
  for (int fruitless = 0; fruitless < kFruitless;) {
    GridPoint best;
    std::vector<Pair> best_pairs;
    for (int i = 0; i < kCandidates; ++i) {
      GridPoint candidate;
      for (const int size : sizes) candidate.push_back(static_cast<int>(random.Below(size)));
      if (!valid(candidate)) continue;
      std::vector<Pair> pairs = fresh(candidate);
      if (pairs.size() <= best_pairs.size()) continue;
      best = std::move(candidate);
      best_pairs = std::move(pairs);
    }
    if (best_pairs.empty()) {
      ++fruitless;
      continue;
    }
    fruitless = 0;
    covered.insert(best_pairs.begin(), best_pairs.end());
    points.push_back(std::move(best));
  }
  return points;
}

}  // namespace ftune::testing
