#include "engine/shard/tensor_ranges.h"

#include <algorithm>

namespace ftune {
namespace {

// Elements of a parameter's slice, with the ranks that hold the same: the slice's, cut where that changes.
struct HeldElements {
  FlatRange range;
  int replicas = 1;
};

std::vector<HeldElements> HeldOf(const Parameter& p) {
  if (p.placement() == Placement::Replicate()) return {{{p.offset, p.size()}, p.position.size}};
  std::vector<HeldElements> held;
  const auto append = [&](int64_t count, int replicas) {
    const int64_t begin = held.empty() ? p.offset : held.back().range.begin + held.back().range.count;
    held.push_back({{begin, count}, replicas});
  };
  const int64_t width = p.local_shape.back();
  if (p.local_shape.size() == 2 && p.placement() == Placement::Shard(0)) {
    for (const HeldRange& rows : p.dims[0].held()) append(rows.count * width, rows.replicas);
    return held;
  }
  const std::vector<HeldRange> of_row = p.dims.back().held();
  const auto alike = [&](const HeldRange& columns) { return columns.replicas == of_row.front().replicas; };
  if (std::all_of(of_row.begin(), of_row.end(), alike)) {
    append(p.size(), of_row.front().replicas);
    return held;
  }
  for (int64_t row = 0; row < p.size() / width; ++row) {
    for (const HeldRange& columns : of_row) append(columns.count, columns.replicas);
  }
  return held;
}

}  // namespace

std::vector<PartialRange> PartialRangesOf(const ParameterStore& store) {
  std::vector<PartialRange> partial;
  for (const Parameter* p : store.in_storage_order()) {
    if (!p->trainable || p->terms == Placement::Replicate()) continue;
    for (const HeldElements& held : HeldOf(*p)) {
      if (held.replicas == 1 || held.range.count == 0) continue;
      PartialRange* last = partial.empty() ? nullptr : &partial.back();
      if (last != nullptr && last->replicas == held.replicas &&
          last->range.begin + last->range.count == held.range.begin) {
        last->range.count += held.range.count;
      } else {
        partial.push_back({held.range, held.replicas});
      }
    }
  }
  return partial;
}

std::vector<FlatRange> CountedRangesOf(const ParameterStore& store) {
  std::vector<FlatRange> counted;
  for (const Parameter* p : store.in_storage_order()) {
    if (!p->trainable) continue;
    for (const HeldElements& held : HeldOf(*p)) {
      // The first of those that hold them.
      if (p->position.rank % held.replicas != 0 || held.range.count == 0) continue;
      FlatRange* last = counted.empty() ? nullptr : &counted.back();
      if (last != nullptr && last->begin + last->count == held.range.begin) {
        last->count += held.range.count;
      } else {
        counted.push_back(held.range);
      }
    }
  }
  return counted;
}

}  // namespace ftune
