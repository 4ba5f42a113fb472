#include "parallel/global_runs.h"

#include <doctest/doctest.h>

namespace ftune {
namespace {

using Runs = std::vector<GlobalRun>;

Dimension Fused(int rank) {
  // Two heads of 3, one of 2 that both ranks hold, as q and k of a fused product.
  return Dimension({{.parts = 2, .part_size = 3}, {.parts = 1, .part_size = 2, .replicated = true}},
                   {.rank = rank, .size = 2});
}

TEST_CASE("runs of a whole tensor are the asked elements") {
  CHECK(GlobalRunsOf({4, 5}, 3, 10) == Runs{{3, 3, 10}});
  CHECK(GlobalRunsOf({4, 5}, 3, 0).empty());
}

TEST_CASE("runs of cut rows") {
  const std::vector<Dimension> dims = {Fused(1), 10};
  CHECK(GlobalRunsOf(dims, 0, 50) == Runs{{0, 30, 50}});  // its head and the shared one lie side by side
  CHECK(GlobalRunsOf({Fused(0), 10}, 0, 50) == Runs{{0, 0, 30}, {30, 60, 20}});
  CHECK(GlobalRunsOf({Fused(0), 10}, 25, 10) == Runs{{25, 25, 5}, {30, 60, 5}});
}

TEST_CASE("runs of cut columns") {
  CHECK(GlobalRunsOf({2, Fused(0)}, 0, 10) == Runs{{0, 0, 3}, {3, 6, 5}, {8, 14, 2}});
  CHECK(GlobalRunsOf({2, Fused(0)}, 4, 5) == Runs{{4, 7, 4}, {8, 14, 1}});
}

}  // namespace
}  // namespace ftune
