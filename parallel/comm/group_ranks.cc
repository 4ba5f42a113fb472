#include "parallel/comm/group_ranks.h"

#include "base/strings.h"

namespace ftune {

GroupRanks GroupRanks::Of(const std::vector<int>& ranks) {
  GroupRanks group = {.first = ranks.front(), .count = static_cast<int32_t>(ranks.size())};
  if (ranks.size() < 2) return group;
  group.distance = ranks[1] - ranks[0];
  for (size_t i = 2; i < ranks.size(); ++i) {
    if (ranks[i] - ranks[i - 1] != group.distance) group.distance = 0;
  }
  return group;
}

bool GroupRanks::Has(int rank) const {
  if (distance == 0 || rank < first) return false;
  return (rank - first) % distance == 0 && (rank - first) / distance < count;
}

std::string GroupRanks::Describe() const {
  constexpr int kMostListed = 4;
  if (count == 1) return StrCat("rank ", first);
  if (distance == 0) return StrCat("rank ", first, " and ", count - 1, " others");
  const int last = first + distance * (count - 1);
  if (distance == 1 && count > 2) return StrCat("ranks ", first, "-", last);
  if (count > kMostListed) return StrCat("ranks ", first, ", ", first + distance, ", …, ", last);
  std::string text = StrCat("ranks ", first);
  for (int i = 1; i < count; ++i) StrAppend(text, ", ", first + distance * i);
  return text;
}

}  // namespace ftune
