// Boxes of a tensor's elements in global coordinates: what a slice in a checkpoint is of a parameter,
// whatever mesh has written it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "engine/model/flat_range.h"
#include "engine/model/parameter_store.h"

namespace ftune {

struct Region {
  std::vector<int64_t> begin;  // of each dimension
  std::vector<int64_t> size;

  int64_t elements() const;
  bool operator==(const Region&) const = default;
  // "[0:512, 64:128]"
  std::string Describe() const;
};

Region WholeOf(const std::vector<int64_t>& shape);
// What both have; without elements where they do not meet.
Region Intersect(const Region& a, const Region& b);

// The elements of `range` of a parameter's local elements (ParameterStore), in their order there: the regions
// lie side by side, each row-major.
std::vector<Region> RegionsOf(const Parameter& parameter, const FlatRange& range);

// What both regions have, from one row-major box to another. Nothing where they do not meet.
void CopyShared(DType dtype, const Region& from, const std::byte* source, const Region& to,
                std::byte* target);

// What keeps the regions from being each element of `shape` once; nothing where they are.
std::optional<std::string> WhyNotTiled(const std::vector<int64_t>& shape, const std::vector<Region>& regions);

}  // namespace ftune
