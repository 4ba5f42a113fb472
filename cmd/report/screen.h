// Standard error for whoever must not wait for its reader: a pager that stands still, a terminal on which
// Ctrl-S was pressed, a pipe that nobody reads. A thread of its own writes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace ftune {

class Screen {
 public:
  // `elsewhere`: where the lines are that are left out here because their reader is too slow.
  Screen(int descriptor, std::string elsewhere);
  // Waits until all is written, as any program does at its end.
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Returns at once.
  void Write(std::string_view text);
  // Nobody reads it, nor will: what is written is dropped.
  bool closed() const;

 private:
  static constexpr size_t kMostWaiting = size_t{1} << 16;

  void Run();
  void SayLeftOut();
  // False where nobody reads.
  bool WriteAll(std::string_view text) const;

  const int descriptor_;
  const std::string elsewhere_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string waiting_;
  int64_t left_out_ = 0;  // lines, since the last of `waiting_`
  bool closed_ = false;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace ftune
