#include "engine/model/slices.h"

namespace ftune {
namespace {

void Append(const SliceRun& run, std::vector<SliceRun>& runs) {
  if (run.count == 0) return;
  if (!runs.empty() && runs.back().whole + runs.back().count == run.whole) {
    runs.back().count += run.count;
  } else {
    runs.push_back(run);
  }
}

}  // namespace

std::vector<SliceRun> SliceRuns(const std::vector<Dimension>& dims, int rank) {
  const bool matrix = dims.size() == 2;
  const std::vector<HeldRange> rows = matrix ? dims[0].held_by(rank) : std::vector<HeldRange>{{0, 1, 1}};
  const Dimension& width = dims.back();
  const std::vector<HeldRange> columns = width.held_by(rank);
  std::vector<SliceRun> runs;
  int64_t local = 0;
  for (const HeldRange& held : rows) {
    if (!width.sharded()) {
      Append({held.begin * width.size(), local, held.count * width.size()}, runs);
      local += held.count * width.size();
      continue;
    }
    for (int64_t row = held.begin; row < held.begin + held.count; ++row) {
      for (const HeldRange& range : columns) {
        Append({row * width.size() + range.begin, local, range.count}, runs);
        local += range.count;
      }
    }
  }
  return runs;
}

}  // namespace ftune
