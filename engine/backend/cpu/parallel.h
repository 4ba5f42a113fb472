// A backend's own threads. Work is cut into chunks that any thread may take; a caller never waits for a
// thread that has not taken one, so that a thread without a core costs little (OpenMP's barriers wait for
// every thread of the team).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace ftune::cpu {

class ThreadPool {
 public:
  // The thread that calls Run is one of the `threads`.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // body(chunk, worker) for each chunk in [0, chunks), worker in [0, threads()); returns when all are done.
  // Which worker does a chunk, and when, is not fixed: what is summed over chunks must be summed afterwards,
  // in order. One caller at a time; a body must not call Run.
  template <class Body>
  void Run(int64_t chunks, const Body& body) {
    if (chunks <= 1 || workers_.empty()) {
      for (int64_t chunk = 0; chunk < chunks; ++chunk) body(chunk, 0);
      return;
    }
    RunJob(static_cast<uint32_t>(chunks), &body, [](const void* job, int64_t chunk, int worker) {
      (*static_cast<const Body*>(job))(chunk, worker);
    });
  }

 private:
  using Call = void (*)(const void* job, int64_t chunk, int worker);

  void RunJob(uint32_t chunks, const void* job, Call call);
  // Takes chunks of the current job until none is left.
  void Work(int worker);
  void WorkerLoop(int worker);

  // The job; written while no chunk is open, read by those who have taken one.
  const void* job_ = nullptr;
  Call call_ = nullptr;
  uint32_t chunks_ = 0;
  // Job number (high half) and its chunks not yet taken (low half).
  alignas(64) std::atomic<uint64_t> open_{0};
  alignas(64) std::atomic<int64_t> unfinished_{0};
  alignas(64) std::atomic<uint32_t> job_number_{0};
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> workers_;
};

// body(begin, end) over [0, count) in ranges of `grain`.
template <class Body>
void ParallelRanges(ThreadPool& pool, int64_t count, int64_t grain, const Body& body) {
  pool.Run((count + grain - 1) / grain, [&](int64_t chunk, int) {
    const int64_t begin = chunk * grain;
    body(begin, std::min(count, begin + grain));
  });
}

// Elements that are worth a chunk of their own in memory-bound loops.
inline constexpr int64_t kElementGrain = 16384;

// body(begin, end) over rows of `cols` elements.
template <class Body>
void ParallelRows(ThreadPool& pool, int64_t rows, int64_t cols, const Body& body) {
  ParallelRanges(pool, rows, std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, cols)), body);
}

// body(row, begin, count) over contiguous pieces of a matrix; where all its operands are contiguous, it is
// one row.
template <class Body>
void ParallelPieces(ThreadPool& pool, int64_t rows, int64_t cols, bool contiguous, const Body& body) {
  if (contiguous) {
    cols *= rows;
    rows = 1;
  }
  if (cols <= kElementGrain) {
    ParallelRows(pool, rows, cols, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) body(row, int64_t{0}, cols);
    });
    return;
  }
  const int64_t pieces = (cols + kElementGrain - 1) / kElementGrain;
  pool.Run(rows * pieces, [&](int64_t chunk, int) {
    const int64_t begin = chunk % pieces * kElementGrain;
    body(chunk / pieces, begin, std::min(kElementGrain, cols - begin));
  });
}

}  // namespace ftune::cpu
