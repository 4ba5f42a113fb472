// What a rank that is run dry does when, on a clock that does not pass.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "base/timeline.h"

namespace ftune {

class SpanTrack final : public TimeListener {
 public:
  explicit SpanTrack(std::function<double()> now) : now_(std::move(now)) {}

  void OnBegin(int lane, std::string_view name, int64_t number) override;
  void OnEnd(int lane) override;

  // Forgets what has ended so far.
  void Clear() { spans_.clear(); }
  const std::vector<TimeSpan>& spans() const { return spans_; }  // in the order in which they ended

 private:
  std::function<double()> now_;
  std::vector<TimeSpan> open_;
  std::vector<TimeSpan> spans_;
};

}  // namespace ftune
