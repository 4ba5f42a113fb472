#include "parallel/comm/late_ranks.h"

#include <doctest/doctest.h>

#include <vector>

namespace ftune {
namespace {

int Blamed(const std::vector<LateReport>& reports) {
  const std::optional<Blame> blame = BlameFor(reports);
  return blame ? blame->rank : -1;
}

LateReport In(int rank, uint64_t call, std::vector<int> missing, uint64_t place = 7) {
  return {.rank = rank, .place = place, .sequence = call, .missing = std::move(missing)};
}

TEST_CASE("late ranks: a rank that is cut off is blamed, whoever else is a call behind") {
  // One of three reaches nobody. What it had sent before may have reached one of the others.
  for (const int cut : {0, 1, 2}) {
    const int one = cut == 0 ? 1 : 0, two = cut == 2 ? 1 : 2;
    for (const int a : {4, 5}) {
      for (const int b : {4, 5}) {
        const LateReport first = In(one, a, b < a ? std::vector{two, cut} : std::vector{cut});
        const LateReport second = In(two, b, a < b ? std::vector{one, cut} : std::vector{cut});
        CHECK(Blamed({first, second}) == cut);
        CHECK(Blamed({second, first}) == cut);
        for (const int c : {4, 5}) CHECK(Blamed({first, second, In(cut, c, {one, two})}) == cut);
      }
    }
  }
  CHECK(Blamed({In(0, 3, {1})}) == 1);
  CHECK(Blamed({In(0, 3, {1}), In(1, 3, {0})}) == 1);
}

TEST_CASE("late ranks: who waits in another group is not blamed, but for whom it waits") {
  CHECK(Blamed({In(0, 9, {1}, 7), In(1, 2, {2}, 8)}) == 2);
  CHECK(Blamed({In(0, 9, {1}, 7), In(1, 2, {2}, 8), In(2, 1, {3}, 9)}) == 3);
  CHECK(Blamed({In(0, 9, {1}, 7), In(1, 2, {0}, 8)}) == 0);  // each other, in different calls
  CHECK(Blamed({In(0, 9, {}, 7)}) == -1);
}

TEST_CASE("late ranks: reports as text") {
  const LateReport report = {.rank = 3,
                             .place = ~uint64_t{5},
                             .sequence = 17,
                             .missing = {1, 4},
                             .call = "barrier() #17",
                             .waited = absl::Milliseconds(1500)};
  const std::optional<LateReport> read = LateReport::Decode(report.Encode());
  REQUIRE(read);
  CHECK(read->rank == 3);
  CHECK(read->place == ~uint64_t{5});
  CHECK(read->sequence == 17);
  CHECK(read->missing == std::vector{1, 4});
  CHECK(read->call == "barrier() #17");
  CHECK(read->waited == absl::Milliseconds(1500));
  for (const char* wrong : {"", "{", "[]", "3", R"({"rank":1})",
                            R"({"rank":1,"place":2,"sequence":3,"missing":["x"],"call":"c","waited":4})",
                            R"({"rank":1,"place":2,"sequence":3,"missing":7,"call":"c","waited":4})"}) {
    CHECK_FALSE(LateReport::Decode(wrong));
  }
}

}  // namespace
}  // namespace ftune
