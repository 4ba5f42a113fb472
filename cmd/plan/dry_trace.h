// What a rank that is run dry does in a step, and what memory it has when.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/timeline.h"
#include "engine/tensor/ledger.h"

namespace ftune {

struct MemorySample {
  double seconds = 0.0;  // from the begin of the step
  MemoryUse use;         // from then on
};

// Allocations of one size and category that were made at one moment, or at several of the same kind.
struct LiveTensors {
  Category category = Category::kWeights;
  int64_t bytes = 0;  // of each
  int64_t count = 0;
  std::string made_in;  // as PeakMoment describes a moment

  int64_t total() const { return bytes * count; }
};

struct DryTrace {
  bool timed = false;                // else the device is not known: a microsecond stands for an allocation
  std::vector<TimeSpan> spans;       // lanes as kTimeLanes has them; seconds from the begin of the step
  std::vector<MemorySample> memory;  // in order of time
  std::vector<LiveTensors> at_peak;  // alive at the highest peak, the largest in all first
};

}  // namespace ftune
