#include "engine/shard/cut.h"

#include <algorithm>

namespace ftune {
namespace {

int64_t NearestMultiple(int64_t x, int64_t unit) { return (x + unit / 2) / unit * unit; }

// The place nearest to `wanted`, which lies in the parameter, where it may be cut.
int64_t NearestCut(const Parameter& p, const UpdateRule& rule, int64_t wanted) {
  const int64_t end = p.offset + p.size();
  if (rule.elementwise()) return std::clamp(NearestMultiple(wanted, kCutUnit), p.offset, end);
  const int64_t grain = rule.grain() == UpdateRule::kWhole ? p.size() : rule.grain();
  return std::min(p.offset + NearestMultiple(wanted - p.offset, grain), end);
}

}  // namespace

std::vector<int64_t> CutTrainable(const Block& block, const UpdateRules& rules, int ranks) {
  const ParameterStore& store = block.store();
  const int64_t total = store.trainable_size();
  std::vector<int64_t> counts;
  int64_t begin = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t wanted = total * (rank + 1) / ranks;
    int64_t end = total;
    for (const Parameter& p : store.parameters()) {
      if (!p.trainable || wanted < p.offset || wanted >= p.offset + p.size()) continue;
      end = std::max(begin, NearestCut(p, RuleOf(rules, p, block.hidden()), wanted));
    }
    counts.push_back(end - begin);
    begin = end;
  }
  return counts;
}

}  // namespace ftune
