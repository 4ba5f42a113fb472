// Batches made ahead of time, in a thread of their own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/status/statusor.h"
#include "data/loader/batch_source.h"

namespace ftune {

// One thread fills, one takes. While the prefetcher lives, nobody else uses the source; when it ends, the
// source stands behind what was made, not behind what was taken.
class Prefetcher {
 public:
  // Holds at most `depth` global batches (≥ 1) that were not taken yet. The source outlives the prefetcher.
  explicit Prefetcher(BatchSource& source, int64_t depth = 2);
  // Interrupts the source.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Waits for the next batch. Nothing at the end of the data, and soon after `stop` says true while there is
  // none. An error of the source comes behind the batches that were made before it.
  absl::StatusOr<std::optional<StepBatches>> Next(const std::function<bool()>& stop);
  // Whether there is a batch already; where there is not, there may be none.
  bool Ready();

 private:
  void Fill();

  BatchSource& source_;
  size_t depth_;
  std::mutex mutex_;
  std::condition_variable taken_;  // or stopped
  std::condition_variable made_;
  std::deque<StepBatches> ready_;
  bool stopped_ = false;   // by the destructor
  bool finished_ = false;  // the thread adds nothing more
  absl::Status error_;     // why, where it is not the end of the data
  std::thread thread_;
};

}  // namespace ftune
