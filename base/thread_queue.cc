#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/io_queue.h"

namespace ftune {
namespace {

class ThreadQueue final : public IoQueue {
 public:
  explicit ThreadQueue(int fd) : fd_(fd), thread_([this] { Loop(); }) {}
  ~ThreadQueue() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void Submit(const IoOperation& operation) override {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(operation);
    }
    changed_.notify_all();
  }

  std::optional<IoResult> Take(bool wait) override {
    std::unique_lock lock(mutex_);
    if (wait) changed_.wait(lock, [this] { return !results_.empty(); });
    if (results_.empty()) return std::nullopt;
    const IoResult result = results_.front();
    results_.pop_front();
    return result;
  }

 private:
  void Loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const IoOperation operation = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      const int64_t bytes = operation.write ? pwrite(fd_, operation.data, operation.bytes, operation.offset)
                                            : pread(fd_, operation.data, operation.bytes, operation.offset);
      const IoResult result = {operation.id, bytes < 0 ? -errno : bytes};
      lock.lock();
      results_.push_back(result);
      changed_.notify_all();
    }
  }

  int fd_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<IoOperation> waiting_;
  std::deque<IoResult> results_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace

std::unique_ptr<IoQueue> MakeThreadQueue(int fd) { return std::make_unique<ThreadQueue>(fd); }

}  // namespace ftune
