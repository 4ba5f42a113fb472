#include "data/loader/prefetcher.h"

#include <chrono>
#include <utility>

namespace ftune {

Prefetcher::Prefetcher(BatchSource& source, int64_t depth)
    : source_(source), depth_(static_cast<size_t>(depth)), thread_([this] { Fill(); }) {}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  taken_.notify_one();
  source_.Interrupt();
  thread_.join();
}

absl::StatusOr<std::optional<StepBatches>> Prefetcher::Next(const std::function<bool()>& stop) {
  // A signal handler cannot wake a condition variable, so `stop` is asked now and then.
  constexpr auto kPoll = std::chrono::milliseconds(50);
  std::unique_lock lock(mutex_);
  while (ready_.empty() && !finished_) {
    if (stop()) return std::nullopt;
    made_.wait_for(lock, kPoll);
  }
  if (ready_.empty()) {
    if (!error_.ok()) return error_;
    return std::nullopt;
  }
  StepBatches step = std::move(ready_.front());
  ready_.pop_front();
  lock.unlock();
  taken_.notify_one();
  return step;
}

bool Prefetcher::Ready() {
  const std::lock_guard lock(mutex_);
  return !ready_.empty();
}

void Prefetcher::Fill() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      taken_.wait(lock, [this] { return stopped_ || ready_.size() < depth_; });
      if (stopped_) return;
    }
    absl::StatusOr<std::optional<StepBatches>> next = source_.Next();
    const bool more = next.ok() && next->has_value();
    {
      const std::lock_guard lock(mutex_);
      if (more) ready_.push_back(**std::move(next));
      finished_ = !more;
      error_ = next.status();
    }
    made_.notify_one();
    if (!more) return;
  }
}

}  // namespace ftune
