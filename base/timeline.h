// What a process did when, as Chrome's trace viewer, Perfetto and speedscope show it
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU, "Trace Event Format").
#pragma once

#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace ftune {

// A stretch of time in one lane, in seconds on the steady clock.
struct TimeSpan {
  int lane = 0;
  std::string name;
  double begin = 0.0;
  double end = 0.0;
};

// Thread-safe.
class Timeline {
 public:
  // Seconds on the clock of all spans.
  static double Now();

  void Add(TimeSpan span);
  // Those so far, which are then no longer here.
  std::vector<TimeSpan> Take();

 private:
  std::mutex mutex_;
  std::vector<TimeSpan> spans_;
};

// Events of one process: `pid` and `name` are its own, `lanes` the names of lanes 0, 1, …. Times are
// microseconds from `origin`.
nlohmann::json TraceEvents(const std::vector<TimeSpan>& spans, const std::vector<std::string>& lanes, int pid,
                           const std::string& name, double origin);

}  // namespace ftune
