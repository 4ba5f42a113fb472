// Memory over time in a bounded number of samples, none of which is below what there was.
#pragma once

#include <cstddef>
#include <vector>

#include "cmd/plan/dry_trace.h"

namespace ftune {

class MemorySamples {
 public:
  // Times do not fall. Of one time the highest use is kept, and the last, which goes on from there.
  void Add(double seconds, const MemoryUse& use);
  // In order of time.
  std::vector<MemorySample> Take();

 private:
  // Whether the last two are of one time: the highest use, and the last.
  bool two_of_one_ = false;
  std::vector<MemorySample> samples_;
};

// At most `most` (from 2 on), of neighbours the higher one from the time of the first on. The highest of all
// stays as it is.
std::vector<MemorySample> Thinned(std::vector<MemorySample> samples, size_t most);

}  // namespace ftune
