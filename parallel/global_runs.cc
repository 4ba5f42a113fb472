#include "parallel/global_runs.h"

#include <algorithm>

namespace ftune {
namespace {

// Appends the part of a run that lies in local [begin, end).
void AddWithin(GlobalRun run, int64_t begin, int64_t end, std::vector<GlobalRun>& runs) {
  const int64_t first = std::max(run.local, begin);
  const int64_t last = std::min(run.local + run.count, end);
  if (first >= last) return;
  run = {first, run.global + first - run.local, last - first};
  if (!runs.empty()) {
    GlobalRun& before = runs.back();
    if (before.local + before.count == run.local && before.global + before.count == run.global) {
      before.count += run.count;
      return;
    }
  }
  runs.push_back(run);
}

}  // namespace

std::vector<GlobalRun> GlobalRunsOf(const std::vector<Dimension>& dims, int64_t begin, int64_t count) {
  const auto cut = std::find_if(dims.begin(), dims.end(), [](const Dimension& dim) { return dim.sharded(); });
  std::vector<GlobalRun> runs;
  if (cut == dims.end()) {
    if (count > 0) runs.push_back({begin, begin, count});
    return runs;
  }
  int64_t inner = 1;
  for (auto dim = cut + 1; dim != dims.end(); ++dim) inner *= dim->size();
  const int64_t local_row = cut->local_size() * inner;
  const int64_t global_row = cut->size() * inner;
  if (local_row == 0) return runs;
  const std::vector<HeldRange> held = cut->held();
  for (int64_t outer = begin / local_row; outer * local_row < begin + count; ++outer) {
    int64_t local = outer * local_row;
    for (const HeldRange& range : held) {
      AddWithin({local, outer * global_row + range.begin * inner, range.count * inner}, begin, begin + count,
                runs);
      local += range.count * inner;
    }
  }
  return runs;
}

}  // namespace ftune
