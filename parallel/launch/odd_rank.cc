#include "parallel/launch/odd_rank.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace ftune {
namespace {

bool HasCome(const Pulse& rank, const Pulse& to) {
  return rank.group == to.group && rank.sequence >= to.sequence;
}

// One that `rank` waits for: the one that is still for longest.
std::optional<int> WaitsFor(const std::vector<Pulse>& pulses, int rank) {
  const Pulse& waiting = pulses[rank];
  if (waiting.call.empty()) return std::nullopt;
  std::optional<int> longest;
  for (int other = 0; other < std::ssize(pulses); ++other) {
    if (other == rank || !waiting.group.Has(other) || HasCome(pulses[other], waiting)) continue;
    if (!longest || pulses[other].still_seconds > pulses[*longest].still_seconds) longest = other;
  }
  return longest;
}

// Where the chain of waits that begins with `rank` ends; nothing in a circle.
std::optional<int> EndOfChain(const std::vector<Pulse>& pulses, int rank) {
  std::set<int> seen;
  while (seen.insert(rank).second) {
    const std::optional<int> next = WaitsFor(pulses, rank);
    if (!next) return rank;
    rank = *next;
  }
  return std::nullopt;
}

}  // namespace

std::optional<int> OddRank(const std::vector<Pulse>& pulses) {
  std::vector<int> chains(pulses.size(), 0);  // that lead to a rank from others
  bool waits = false;
  for (int rank = 0; rank < std::ssize(pulses); ++rank) {
    waits |= !pulses[rank].call.empty();
    const std::optional<int> end = EndOfChain(pulses, rank);
    if (end && *end != rank) ++chains[*end];
  }
  if (const auto most = std::max_element(chains.begin(), chains.end()); most != chains.end() && *most > 0) {
    return static_cast<int>(most - chains.begin());
  }
  if (waits || pulses.empty()) return std::nullopt;
  const auto longest = std::max_element(pulses.begin(), pulses.end(), [](const Pulse& a, const Pulse& b) {
    return a.still_seconds < b.still_seconds;
  });
  return static_cast<int>(longest - pulses.begin());
}

}  // namespace ftune
