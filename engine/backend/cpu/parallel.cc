#include "engine/backend/cpu/parallel.h"

#include <omp.h>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace ftune::cpu {
namespace {

// About 50 µs: ops follow one another faster than a sleeping thread is woken.
constexpr int kSpins = 1000;

inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

constexpr uint64_t kCountMask = 0xffffffffu;

}  // namespace

ThreadPool::ThreadPool(int threads) {
  for (int worker = 1; worker < threads; ++worker) {
    workers_.emplace_back([this, worker] { WorkerLoop(worker); });
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  job_number_.fetch_add(1, std::memory_order_release);
  job_number_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::RunJob(uint32_t chunks, const void* job, Call call) {
  job_ = job;
  call_ = call;
  chunks_ = chunks;
  unfinished_.store(chunks, std::memory_order_relaxed);
  const uint32_t number = job_number_.load(std::memory_order_relaxed) + 1;
  open_.store(uint64_t{number} << 32 | chunks, std::memory_order_release);
  job_number_.store(number, std::memory_order_release);
  job_number_.notify_all();
  Work(0);
  for (int spins = 0; unfinished_.load(std::memory_order_acquire) != 0; ++spins) {
    if (spins < kSpins) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::Work(int worker) {
  uint64_t open = open_.load(std::memory_order_acquire);
  while ((open & kCountMask) != 0) {
    if (!open_.compare_exchange_weak(open, open - 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
      continue;
    }
    // Having taken a chunk, the job cannot end before we say so.
    call_(job_, chunks_ - static_cast<int64_t>(open & kCountMask), worker);
    unfinished_.fetch_sub(1, std::memory_order_acq_rel);
    open = open_.load(std::memory_order_acquire);
  }
}

void ThreadPool::WorkerLoop(int worker) {
  omp_set_num_threads(1);  // oneDNN asks OpenMP for its number of threads
  uint32_t seen = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    uint32_t number = job_number_.load(std::memory_order_acquire);
    for (int spins = 0; number == seen && spins < kSpins; ++spins) {
      Pause();
      number = job_number_.load(std::memory_order_acquire);
    }
    if (number == seen) {
      job_number_.wait(seen, std::memory_order_acquire);
      continue;
    }
    seen = number;
    Work(worker);
  }
}

}  // namespace ftune::cpu
