#include "base/timeline.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/strings.h"

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
  if (!recording_) return;
  const std::lock_guard lock(mutex_);
  spans_.push_back(std::move(span));
}

std::vector<TimeSpan> Timeline::Take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(spans_, {});
}

TimeScope::TimeScope(Timeline* timeline, int lane, std::string_view name, int64_t number)
    : timeline_(timeline != nullptr && timeline->recording() ? timeline : nullptr),
      listener_(timeline != nullptr ? timeline->listener() : nullptr),
      span_{.lane = lane} {
  if (listener_ != nullptr) listener_->OnBegin(lane, name, number);
  if (timeline_ == nullptr) return;
  span_.name = name;
  span_.begin = Timeline::Now();
  if (number >= 0) StrAppend(span_.name, " ", number);
}

TimeScope::~TimeScope() {
  if (listener_ != nullptr) listener_->OnEnd(span_.lane);
  if (timeline_ == nullptr) return;
  span_.end = Timeline::Now();
  timeline_->Add(std::move(span_));
}

nlohmann::json TraceEvents(const std::vector<TimeSpan>& spans, int pid, const std::string& name,
                           double origin) {
  nlohmann::json events = nlohmann::json::array();
  events.push_back(NameEvent("process_name", pid, 0, name));
  for (size_t lane = 0; lane < kTimeLanes.size(); ++lane) {
    events.push_back(NameEvent("thread_name", pid, static_cast<int>(lane), std::string(kTimeLanes[lane])));
  }
  for (const TimeSpan& span : spans) {
    events.push_back({{"ph", "X"},
                      {"name", span.name},
                      {"cat", kTimeLanes[span.lane]},
                      {"pid", pid},
                      {"tid", span.lane},
                      {"ts", (span.begin - origin) * 1e6},
                      {"dur", (span.end - span.begin) * 1e6}});
  }
  return events;
}

}  // namespace ftune
