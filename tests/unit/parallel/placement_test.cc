#include "parallel/placement.h"

#include <doctest/doctest.h>

namespace ftune {
namespace {

// begin, count, replicas
std::vector<std::vector<int64_t>> HeldOn(const Dimension& dimension, int rank) {
  std::vector<std::vector<int64_t>> held;
  for (const HeldRange& range : dimension.On(rank).held()) {
    held.push_back({range.begin, range.count, range.replicas});
  }
  return held;
}
using Held = std::vector<std::vector<int64_t>>;

TEST_CASE("with one rank nothing is cut") {
  const Dimension dimension({{.parts = 6, .part_size = 8}, {.parts = 2, .part_size = 8}}, {});
  CHECK_FALSE(dimension.sharded());
  CHECK(dimension.size() == 64);
  CHECK(dimension.local_size() == 64);
  CHECK(HeldOn(dimension, 0) == Held{{0, 64, 1}});
}

TEST_CASE("a rank holds a slice of each section") {
  // q | k | v of 8 and twice 2 heads
  const std::vector<Section> qkv = {{.parts = 8, .part_size = 4},
                                    {.parts = 2, .part_size = 4, .replicated = true},
                                    {.parts = 2, .part_size = 4, .replicated = true}};
  const Dimension two(qkv, {.rank = 1, .size = 2});
  CHECK(two.sharded());
  CHECK(two.local_size() == 24);
  CHECK(two.first() == 16);
  CHECK(HeldOn(two, 1) == Held{{16, 16, 1}, {36, 4, 1}, {44, 4, 1}});
  // Fewer key heads than ranks: neighbours share them.
  const Dimension four(qkv, {.rank = 0, .size = 4});
  CHECK(HeldOn(four, 0) == Held{{0, 8, 1}, {32, 4, 2}, {40, 4, 2}});
  CHECK(HeldOn(four, 1) == Held{{8, 8, 1}, {32, 4, 2}, {40, 4, 2}});
  CHECK(HeldOn(four, 3) == Held{{24, 8, 1}, {36, 4, 2}, {44, 4, 2}});
}

TEST_CASE("slices may be uneven, and make up the whole") {
  for (const int ranks : {2, 3, 4, 7}) {
    const Dimension vocabulary({{.parts = 50257}}, {.rank = 0, .size = ranks});
    int64_t next = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const Dimension on = vocabulary.On(rank);
      CHECK(on.first() == next);
      next += on.local_size();
      CHECK(on.local_size() <= vocabulary.largest_local_size());
      CHECK(on.local_size() >= vocabulary.largest_local_size() - 1);
    }
    CHECK(next == 50257);
  }
}

}  // namespace
}  // namespace ftune
