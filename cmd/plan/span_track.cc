#include "cmd/plan/span_track.h"

#include <string>
#include <utility>

#include "base/strings.h"

namespace ftune {

void SpanTrack::OnBegin(int lane, std::string_view name, int64_t number) {
  open_.push_back({lane, number < 0 ? std::string(name) : StrCat(name, " ", number), now_(), 0.0});
}

void SpanTrack::OnEnd(int) {
  TimeSpan span = std::move(open_.back());
  open_.pop_back();
  span.end = now_();
  spans_.push_back(std::move(span));
}

}  // namespace ftune
