#include "parallel/comm/circle.h"

#include <algorithm>

namespace ftune {

std::vector<int> FindCircle(int self, int ranks, const std::function<bool(int from, int to)>& waits_for) {
  std::vector<int> reached = {self};  // from `self`, the nearest first
  std::vector<int> from(ranks, -1);   // of each, who waits for it
  for (size_t i = 0; i < reached.size(); ++i) {
    const int rank = reached[i];
    if (rank != self && waits_for(rank, self)) {
      std::vector<int> circle;
      for (int r = rank; r != -1; r = r == self ? -1 : from[r]) circle.push_back(r);
      std::reverse(circle.begin(), circle.end());
      return circle;
    }
    for (int next = 0; next < ranks; ++next) {
      if (next == self || next == rank || from[next] != -1 || !waits_for(rank, next)) continue;
      from[next] = rank;
      reached.push_back(next);
    }
  }
  return {};
}

}  // namespace ftune
