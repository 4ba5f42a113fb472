// Work on many independent pieces with several threads; results and errors as if done one after another.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace ftune {

// build(0), …, build(count - 1), in order; or the error of the first row that has one. `build` is called from
// `threads` threads at a time (0: one a core).
template <class Result>
absl::StatusOr<std::vector<Result>> BuildInParallel(
    int64_t count, int threads, const std::function<absl::StatusOr<Result>(int64_t)>& build) {
  std::vector<std::optional<absl::StatusOr<Result>>> results(static_cast<size_t>(count));
  std::atomic<int64_t> next = 0;
  std::atomic<bool> failed = false;
  // Rows are handed out in order, so every row before one that failed is finished too.
  const auto work = [&] {
    while (!failed.load(std::memory_order_relaxed)) {
      const int64_t row = next.fetch_add(1, std::memory_order_relaxed);
      if (row >= count) return;
      auto& result = results[static_cast<size_t>(row)].emplace(build(row));
      if (!result.ok()) failed.store(true, std::memory_order_relaxed);
    }
  };
  const int64_t wanted = threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> helpers;
  for (int64_t i = 1; i < std::min(wanted, count); ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();

  std::vector<Result> rows;
  rows.reserve(results.size());
  for (auto& result : results) {
    if (!result->ok()) return std::move(*result).status();
    rows.push_back(**std::move(result));
  }
  return rows;
}

}  // namespace ftune
