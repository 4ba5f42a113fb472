// Packing by minimum bin slack: slower than best fit, and better where few samples fit into a pack or few
// packs are filled.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ftune {

// Each pack gets the longest sample that is left, and then those that fill it best of the subsets that a
// depth-first search, longer samples first, comes to before it has turned back `max_turns` times (Gupta and
// Ho, "A new heuristic algorithm for the one-dimensional bin-packing problem", 1999; with the first sample
// fixed: Fleszar and Hindi, "New heuristics for one-dimensional bin-packing", 2002).
class SlackPacker {
 public:
  explicit SlackPacker(int64_t capacity) : capacity_(capacity) {}

  // As WindowPacker::Pack.
  int64_t Pack(std::span<const int32_t> lengths, int64_t max_turns, std::vector<uint32_t>& pack_of);

 private:
  // Samples of one length: by_length_[next, end) are left.
  struct Kind {
    int64_t length = 0;
    uint32_t next = 0;
    uint32_t end = 0;
    uint32_t left() const { return end - next; }
  };

  void Sort(std::span<const int32_t> lengths);
  void RemoveEmptyKinds();
  // Sets best_ to the kinds, one for each sample, that fill `room` best.
  void Search(int64_t room, int64_t max_turns);

  int64_t capacity_;
  std::vector<uint32_t> by_length_;  // samples, from the longest to the shortest
  std::vector<Kind> kinds_;          // likewise
  std::vector<uint32_t> chosen_, best_;
};

}  // namespace ftune
