// How much may be on its way to the other end: as much as the way takes within a moment, so that what else
// has to go there does not wait for long.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>

#include "absl/time/time.h"

namespace ftune {

class SendWindow {
 public:
  static constexpr size_t kLeast = size_t{128} << 10;
  static constexpr size_t kMost = size_t{8} << 20;

  // Waits until there is room for `bytes`, which are then on their way; false when it was closed.
  bool Enter(size_t bytes);
  // What has been on its way for longest has come.
  void Leave();
  // Waits until nothing is on its way; false when it was closed.
  bool AwaitEmpty();
  // Nobody waits any more.
  void Close();

 private:
  struct Sent {
    size_t bytes;
    absl::Duration at;
  };
  void Adapt(const Sent& sent, absl::Duration now);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Sent> sent_;
  size_t on_way_ = 0;
  size_t most_ = size_t{1} << 20;
  absl::Duration narrowed_;  // when it was, last
  bool closed_ = false;
};

}  // namespace ftune
