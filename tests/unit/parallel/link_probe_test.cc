#include "parallel/launch/link_probe.h"

#include <doctest/doctest.h>

#include "base/error.h"

namespace ftune {
namespace {

TEST_CASE("a link is measured by who knows the token, also when another one did not") {
  const absl::StatusOr<std::unique_ptr<LinkProbeServer>> server = LinkProbeServer::Start("right");
  REQUIRE(server.ok());
  for (const bool again : {false, true}) {
    CAPTURE(again);
    CHECK_FALSE(MeasureLink({"127.0.0.1"}, (*server)->port(), "wrong").ok());
    const absl::StatusOr<LinkSpeed> speed = MeasureLink({"127.0.0.1"}, (*server)->port(), "right");
    REQUIRE(speed.ok());
    CHECK(speed->round_trip > absl::ZeroDuration());
    CHECK(speed->round_trip < absl::Seconds(1));
    CHECK(speed->sent_per_second > 1e6);
    CHECK(speed->received_per_second > 1e6);
  }
}

TEST_CASE("of several addresses the first that answers is taken, and none is an error") {
  const absl::StatusOr<std::unique_ptr<LinkProbeServer>> server = LinkProbeServer::Start("token");
  REQUIRE(server.ok());
  CHECK(MeasureLink({"no-such-host.invalid", "127.0.0.1"}, (*server)->port(), "token").ok());
  const absl::Status none = MeasureLink({"no-such-host.invalid"}, (*server)->port(), "token").status();
  CHECK(std::string(none.message()).find("no-such-host.invalid") != std::string::npos);
  CHECK_FALSE(MeasureLink({}, (*server)->port(), "token").ok());
}

}  // namespace
}  // namespace ftune
