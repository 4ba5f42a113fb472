// Work on a stream of jobs with several threads; results come in the order of the jobs.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/error.h"

namespace ftune {

// Holds a bounded number of jobs and results: twice the threads, and one more. `build` is called from
// `threads` threads at a time (0: one a core), `consume` from the one that pushes.
template <class Job, class Result>
class OrderedPipeline {
 public:
  using Build = std::function<absl::StatusOr<Result>(const Job&)>;
  using Consume = std::function<absl::Status(const Job&, Result)>;

  OrderedPipeline(int threads, Build build, Consume consume)
      : build_(std::move(build)), consume_(std::move(consume)) {
    const unsigned wanted =
        threads > 0 ? static_cast<unsigned>(threads) : std::thread::hardware_concurrency();
    try {
      for (unsigned i = 0; i < std::max(1u, wanted); ++i) workers_.emplace_back([this] { Work(); });
    } catch (...) {  // the system has no thread for it: those that run end first
      Stop();
      throw;
    }
  }
  OrderedPipeline(const OrderedPipeline&) = delete;
  OrderedPipeline& operator=(const OrderedPipeline&) = delete;
  ~OrderedPipeline() { Stop(); }

  // Waits while too much is under way. The error of the first job that has one, from then on always.
  absl::Status Push(Job job) {
    while (slots_.size() > 2 * workers_.size()) FTUNE_RETURN_IF_ERROR(TakeOldest());
    {
      const std::lock_guard lock(mutex_);
      slots_.push_back(std::make_unique<Slot>(std::move(job)));
      waiting_.push_back(slots_.back().get());
    }
    job_came_.notify_one();
    return absl::OkStatus();
  }

  // Waits for all that was pushed.
  absl::Status Finish() {
    while (!slots_.empty()) FTUNE_RETURN_IF_ERROR(TakeOldest());
    return absl::OkStatus();
  }

 private:
  struct Slot {
    explicit Slot(Job j) : job(std::move(j)) {}
    Job job;
    std::optional<absl::StatusOr<Result>> result;
    std::exception_ptr failure;  // out of memory, say
    bool done = false;
  };

  void Stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    job_came_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  void Work() {
    for (;;) {
      Slot* slot = nullptr;
      {
        std::unique_lock lock(mutex_);
        job_came_.wait(lock, [&] { return stopped_ || !waiting_.empty(); });
        if (stopped_) return;
        slot = waiting_.front();
        waiting_.pop_front();
      }
      try {
        slot->result.emplace(build_(slot->job));
      } catch (...) {
        slot->failure = std::current_exception();
      }
      {
        const std::lock_guard lock(mutex_);
        slot->done = true;
      }
      job_done_.notify_one();
    }
  }

  absl::Status TakeOldest() {
    if (error_.ok()) error_ = ConsumeOldest();
    return error_;
  }

  absl::Status ConsumeOldest() {
    Slot& oldest = *slots_.front();
    {
      std::unique_lock lock(mutex_);
      job_done_.wait(lock, [&] { return oldest.done; });
    }
    if (oldest.failure) std::rethrow_exception(oldest.failure);
    if (!oldest.result->ok()) return oldest.result->status();
    FTUNE_RETURN_IF_ERROR(consume_(oldest.job, **std::move(oldest.result)));
    slots_.pop_front();
    return absl::OkStatus();
  }

  Build build_;
  Consume consume_;
  std::mutex mutex_;
  std::condition_variable job_came_, job_done_;
  std::deque<std::unique_ptr<Slot>> slots_;  // of the pushing thread, in order
  absl::Status error_;                       // likewise
  std::deque<Slot*> waiting_;                // jobs that no thread has taken
  bool stopped_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace ftune
