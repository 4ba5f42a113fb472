// A part of a flat tensor.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ftune {

struct FlatRange {
  int64_t begin = 0;  // elements
  int64_t count = 0;

  int64_t end() const { return begin + count; }
  bool operator==(const FlatRange&) const = default;
};

// What both have; empty where they do not meet.
inline FlatRange Intersect(const FlatRange& a, const FlatRange& b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max<int64_t>(0, std::min(a.end(), b.end()) - begin)};
}

}  // namespace ftune
