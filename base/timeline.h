// What a process did when, as Chrome's trace viewer, Perfetto and speedscope show it
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU, "Trace Event Format").
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ftune {

// The lanes of a rank in training.
enum TimeLane : int { kComputeLane, kWaitLane, kCommunicationLane, kStepLane };
inline constexpr std::array<std::string_view, 4> kTimeLanes = {"compute", "wait for communication",
                                                               "communication", "step"};

// A stretch of time in one lane, in seconds on the steady clock.
struct TimeSpan {
  int lane = 0;
  std::string name;
  double begin = 0.0;
  double end = 0.0;
};

// Marks of the step lane that stand around all others of a step, and around the wait for its batches.
inline constexpr std::string_view kStepMark = "step";
inline constexpr std::string_view kDataMark = "data";

// Hears of each TimeScope, whether or not it is recorded, in its own thread.
class TimeListener {
 public:
  virtual ~TimeListener() = default;
  // `number` is negative where there is none.
  virtual void OnBegin(int lane, std::string_view name, int64_t number) = 0;
  virtual void OnEnd(int lane) = 0;
};

// Thread-safe.
class Timeline {
 public:
  // Seconds on the clock of all spans.
  static double Now();

  bool recording() const { return recording_; }
  void set_recording(bool recording) { recording_ = recording; }
  // Outlives the timeline; set before other threads use that.
  void set_listener(TimeListener* listener) { listener_ = listener; }
  TimeListener* listener() const { return listener_; }
  // Nothing where it does not record.
  void Add(TimeSpan span);
  // Those so far, which are then no longer here.
  std::vector<TimeSpan> Take();

 private:
  std::atomic<bool> recording_ = false;
  TimeListener* listener_ = nullptr;
  std::mutex mutex_;
  std::vector<TimeSpan> spans_;
};

// Adds the time for which it lives, where there is a timeline and it records.
class TimeScope {
 public:
  // The span's name is `name`, with `number` behind it where that is not negative.
  TimeScope(Timeline* timeline, int lane, std::string_view name, int64_t number = -1);
  ~TimeScope();
  TimeScope(const TimeScope&) = delete;
  TimeScope& operator=(const TimeScope&) = delete;

 private:
  Timeline* timeline_;  // null: it does not record
  TimeListener* listener_;
  TimeSpan span_;
};

// Events of one process, which goes by `pid` and `name`; of each the category is its lane. Times are
// microseconds from `origin`.
nlohmann::json TraceEvents(const std::vector<TimeSpan>& spans, int pid, const std::string& name,
                           double origin);

}  // namespace ftune
