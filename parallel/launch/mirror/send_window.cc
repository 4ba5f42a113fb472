#include "parallel/launch/mirror/send_window.h"

#include <algorithm>

#include "base/monotonic_clock.h"

namespace ftune {
namespace {

constexpr size_t kOverhead = 256;  // of a frame
constexpr absl::Duration kLong = absl::Milliseconds(400);
constexpr absl::Duration kShort = absl::Milliseconds(100);

}  // namespace

bool SendWindow::Enter(size_t bytes) {
  bytes += kOverhead;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || sent_.empty() || on_way_ + bytes <= most_; });
  if (closed_) return false;
  sent_.push_back({bytes, MonotonicNow()});
  on_way_ += bytes;
  return true;
}

void SendWindow::Leave() {
  const std::lock_guard lock(mutex_);
  if (sent_.empty()) return;
  Adapt(sent_.front(), MonotonicNow());
  on_way_ -= sent_.front().bytes;
  sent_.pop_front();
  changed_.notify_all();
}

void SendWindow::Adapt(const Sent& sent, absl::Duration now) {
  const absl::Duration took = now - sent.at;
  if (took < kShort) most_ = std::min(kMost, most_ + sent.bytes);
  // What was sent before it was narrowed says nothing of how it is since.
  if (took <= kLong || sent.at < narrowed_) return;
  most_ = std::max(kLeast, most_ / 2);
  narrowed_ = now;
}

bool SendWindow::AwaitEmpty() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || sent_.empty(); });
  return !closed_;
}

void SendWindow::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace ftune
