#include "parallel/launch/restart_policy.h"

#include <doctest/doctest.h>

namespace ftune {
namespace {

std::string WhyNot(const std::variant<absl::Duration, std::string>& next) {
  const std::string* const why = std::get_if<std::string>(&next);
  return why == nullptr ? "" : *why;
}

TEST_CASE("restarts come later and later, and not for ever") {
  RestartPolicy policy(8);
  for (const int seconds : {1, 2, 4, 8, 16, 32, 60, 60}) {
    const auto next = policy.Next(10 * policy.restarts());
    REQUIRE(std::holds_alternative<absl::Duration>(next));
    CHECK(std::get<absl::Duration>(next) == absl::Seconds(seconds));
  }
  CHECK(policy.restarts() == 8);
  CHECK(WhyNot(policy.Next(1000)) == "after 8 restarts (launch.max_restarts)");
  CHECK(policy.restarts() == 8);
}

TEST_CASE("none where none is asked for") {
  CHECK(WhyNot(RestartPolicy(0).Next(0)) == "launch.max_restarts is 0");
}

TEST_CASE("what fails again and again in one step is not started again") {
  RestartPolicy policy(100);
  CHECK(WhyNot(policy.Next(7)).empty());
  CHECK(WhyNot(policy.Next(7)).empty());
  CHECK(WhyNot(policy.Next(8)).empty());  // it came further
  CHECK(WhyNot(policy.Next(7)).empty());
  CHECK(WhyNot(policy.Next(7)).empty());
  CHECK(WhyNot(policy.Next(7)) ==
        "it has failed 3 times in a row in step 8: another restart would end there too");
}

}  // namespace
}  // namespace ftune
