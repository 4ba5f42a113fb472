#include "engine/backend/cpu/parallel.h"

#include <doctest/doctest.h>

#include <mutex>
#include <set>

namespace ftune::cpu {
namespace {

TEST_CASE("each chunk is done once, by a worker of the pool") {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    CHECK(pool.threads() == threads);
    for (int round = 0; round < 2000; ++round) {
      const int64_t chunks = round % 7;
      std::vector<std::atomic<int>> done(chunks);
      std::atomic<bool> foreign = false;
      pool.Run(chunks, [&](int64_t chunk, int worker) {
        done[chunk].fetch_add(1);
        if (worker < 0 || worker >= threads) foreign = true;
      });
      for (const auto& count : done) REQUIRE(count == 1);
      REQUIRE_FALSE(foreign);
    }
  }
}

TEST_CASE("two chunks at once have different workers") {
  ThreadPool pool(3);
  std::vector<std::atomic<int>> busy(3);
  std::atomic<int> clashes = 0;
  pool.Run(500, [&](int64_t, int worker) {
    clashes += busy[worker].fetch_add(1) != 0;
    std::this_thread::yield();
    busy[worker].fetch_sub(1);
  });
  CHECK(clashes == 0);
}

TEST_CASE("ranges and pieces cover everything once") {
  ThreadPool pool(2);
  for (const int64_t count : {0, 1, 10, 11, 95}) {
    std::vector<int> seen(count, 0);
    ParallelRanges(pool, count, 10, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++seen[i];
    });
    CHECK(std::count(seen.begin(), seen.end(), 1) == count);
  }
  for (const bool contiguous : {false, true}) {
    for (const int64_t cols : {int64_t{3}, kElementGrain, 3 * kElementGrain + 5}) {
      const int64_t rows = 7;
      std::vector<int> seen(rows * cols, 0);
      ParallelPieces(pool, rows, cols, contiguous, [&](int64_t row, int64_t begin, int64_t count) {
        for (int64_t i = 0; i < count; ++i) ++seen[row * cols + begin + i];
      });
      CHECK(std::count(seen.begin(), seen.end(), 1) == rows * cols);
    }
  }
}

}  // namespace
}  // namespace ftune::cpu
