// What memory a rank has when, and for what: from each entry of its ledger.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "cmd/plan/dry_trace.h"
#include "cmd/plan/memory_samples.h"
#include "cmd/plan/peak_moment.h"
#include "engine/tensor/ledger.h"

namespace ftune {

class MemoryTrack final : public LedgerListener {
 public:
  // Listens to `ledger`, to which nothing was allocated yet, and which is used no longer than this. `now` is
  // the time in seconds.
  MemoryTrack(Ledger& ledger, const PeakMoment& moment, std::function<double()> now);
  ~MemoryTrack() override { ledger_.set_listener(nullptr); }
  MemoryTrack(const MemoryTrack&) = delete;
  MemoryTrack& operator=(const MemoryTrack&) = delete;

  void OnAllocated(int64_t number, Category category, int64_t bytes) override;
  void OnFreed(int64_t number) override;

  // Says what a live allocation is for, instead of the moment that it was made in.
  void Name(int64_t number, OpenScopes what);
  // Samples are of what comes from here on, and their times from now.
  void BeginStep();

  std::vector<MemorySample> TakeSamples() { return samples_.Take(); }
  // What was alive at the highest peak so far. Allocations that differ only by numbers in `made_in` are
  // together: "forward 0 to 3, forward of block 7".
  std::vector<LiveTensors> AtPeak() const;

 private:
  struct Allocation {
    Category category;
    int64_t bytes;
    OpenScopes made_in;
  };

  void Sample();

  Ledger& ledger_;
  const PeakMoment& moment_;
  std::function<double()> now_;
  double step_begin_ = 0.0;
  MemorySamples samples_;

  std::unordered_map<int64_t, Allocation> alive_;  // by number
  int64_t peak_ = 0;                               // bytes
  int64_t last_at_peak_ = 0;                       // the number of the allocation that made the peak
  std::vector<Allocation> freed_since_;            // which were alive at the peak
};

}  // namespace ftune
