#include "parallel/comm/call_queue.h"

#include <utility>

#include "base/quiet_thread.h"

namespace ftune {

CallQueue::CallQueue(std::function<absl::Status(const Call&)> run)
    : run_(std::move(run)), thread_(QuietThread([this] { Work(); })) {}

CallQueue::~CallQueue() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

uint64_t CallQueue::Put(Call call) {
  {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
  }
  changed_.notify_all();
  return ++put_;
}

absl::Status CallQueue::Wait(uint64_t ticket) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= ticket; });
  return status_;
}

bool CallQueue::Done(uint64_t ticket) const {
  const std::lock_guard lock(mutex_);
  return done_ >= ticket;
}

void CallQueue::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || !calls_.empty(); });
    if (calls_.empty()) return;
    const Call call = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    const absl::Status status = run_(call);
    lock.lock();
    status_.Update(status);
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace ftune
