// Which ranks of the world a group has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ftune {

// The groups of a mesh are evenly spaced, so that three numbers say it all.
struct GroupRanks {
  int32_t first = 0;
  int32_t distance = 1;  // to the next; 0: they are not evenly spaced, and only the first is known
  int32_t count = 0;     // 0: no group

  // `ranks`, not empty, ascend.
  static GroupRanks Of(const std::vector<int>& ranks);

  // False also where it is not known.
  bool Has(int rank) const;
  // "ranks 0-7", "ranks 1, 3", "ranks 0, 8, …, 56"
  std::string Describe() const;

  bool operator==(const GroupRanks&) const = default;
};

}  // namespace ftune
