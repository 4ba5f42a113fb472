#include "base/timeline.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace ftune {
namespace {

TEST_CASE("a timeline has what happened while it recorded") {
  Timeline timeline;
  { const TimeScope before(&timeline, kComputeLane, "before"); }
  { const TimeScope nowhere(nullptr, kComputeLane, "nowhere"); }
  timeline.set_recording(true);
  {
    const TimeScope outer(&timeline, kComputeLane, "block", 3);
    timeline.Add({kWaitLane, "wait", Timeline::Now(), Timeline::Now()});
  }
  timeline.set_recording(false);
  { const TimeScope after(&timeline, kComputeLane, "after"); }
  const std::vector<TimeSpan> spans = timeline.Take();
  REQUIRE(spans.size() == 2);
  CHECK(spans[0].name == "wait");
  CHECK(spans[1].name == "block 3");
  CHECK(spans[1].begin <= spans[0].begin);
  CHECK(spans[0].end <= spans[1].end);
  CHECK(timeline.Take().empty());
}

TEST_CASE("trace events are microseconds from the origin, in named lanes of a named process") {
  const nlohmann::json events = TraceEvents({{kWaitLane, "wait", 2.5, 2.75}}, 7, "rank 7", 2.0);
  REQUIRE(events.size() == 2 + kTimeLanes.size());
  CHECK(events[0]["args"]["name"] == "rank 7");
  CHECK(events[1 + kWaitLane]["args"]["name"] == kTimeLanes[kWaitLane]);
  const nlohmann::json& span = events.back();
  CHECK(span["ph"] == "X");
  CHECK(span["pid"] == 7);
  CHECK(span["tid"] == kWaitLane);
  CHECK(span["cat"] == kTimeLanes[kWaitLane]);
  CHECK(span["ts"] == doctest::Approx(0.5e6));
  CHECK(span["dur"] == doctest::Approx(0.25e6));
}

}  // namespace
}  // namespace ftune
