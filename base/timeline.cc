#include "base/timeline.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

namespace ftune {
namespace {

nlohmann::json NameEvent(const char* what, int pid, int lane, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", lane}, {"args", {{"name", name}}}};
}

}  // namespace

double Timeline::Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Timeline::Add(TimeSpan span) {
  const std::lock_guard lock(mutex_);
  spans_.push_back(std::move(span));
}

std::vector<TimeSpan> Timeline::Take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(spans_, {});
}

nlohmann::json TraceEvents(const std::vector<TimeSpan>& spans, const std::vector<std::string>& lanes, int pid,
                           const std::string& name, double origin) {
  nlohmann::json events = nlohmann::json::array();
  events.push_back(NameEvent("process_name", pid, 0, name));
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    events.push_back(NameEvent("thread_name", pid, static_cast<int>(lane), lanes[lane]));
  }
  for (const TimeSpan& span : spans) {
    events.push_back({{"ph", "X"},
                      {"name", span.name},
                      {"pid", pid},
                      {"tid", span.lane},
                      {"ts", (span.begin - origin) * 1e6},
                      {"dur", (span.end - span.begin) * 1e6}});
  }
  return events;
}

}  // namespace ftune
