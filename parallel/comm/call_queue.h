// A communicator's thread: runs calls that were started, one after another.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "parallel/comm/call.h"

namespace ftune {

class CallQueue {
 public:
  explicit CallQueue(std::function<absl::Status(const Call&)> run);
  ~CallQueue();  // after all that was put in
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  // A ticket to wait with.
  uint64_t Put(Call call);
  // Until that call and all before it are done. The first error of all.
  absl::Status Wait(uint64_t ticket);
  // Whether that is so; does not wait.
  bool Done(uint64_t ticket) const;
  // Of the last call that was put in.
  uint64_t last() const { return put_; }

 private:
  void Work();

  std::function<absl::Status(const Call&)> run_;
  uint64_t put_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Call> calls_;
  uint64_t done_ = 0;
  absl::Status status_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace ftune
