#include "engine/checkpoint/region.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/strings.h"

namespace ftune {
namespace {

// Consecutive elements of the rows and columns that a rank holds → boxes of the whole.
class LocalMatrix {
 public:
  explicit LocalMatrix(const Parameter& p) : two_(p.shape.size() == 2) {
    rows_ = two_ ? p.dims[0].held() : std::vector<HeldRange>{{0, 1, 1}};
    columns_ = p.dims.back().held();
    width_ = p.local_shape.back();
  }

  // Local rows [row, row + rows) and columns [column, column + columns), of which both are whole runs in
  // memory only where they are one row or all columns.
  void AddBox(int64_t row, int64_t rows, int64_t column, int64_t columns, std::vector<Region>& out) const {
    if (columns_.size() == 1) return AddRows(row, rows, column, columns, out);
    // Several runs of columns: in memory the next row follows each run of a row.
    for (int64_t r = row; r < row + rows; ++r) AddRows(r, 1, column, columns, out);
  }
  int64_t width() const { return width_; }

 private:
  void AddRows(int64_t row, int64_t rows, int64_t column, int64_t columns, std::vector<Region>& out) const {
    ForEachHeld(rows_, row, rows, [&](int64_t first_row, int64_t row_count) {
      ForEachHeld(columns_, column, columns, [&](int64_t first_column, int64_t column_count) {
        if (two_) {
          out.push_back({{first_row, first_column}, {row_count, column_count}});
        } else {
          out.push_back({{first_column}, {column_count}});
        }
      });
    });
  }

  // The parts of local [begin, begin + count) that lie side by side in the whole, by where they are there.
  template <class Visit>
  static void ForEachHeld(const std::vector<HeldRange>& held, int64_t begin, int64_t count,
                          const Visit& visit) {
    int64_t local = 0;
    for (const HeldRange& range : held) {
      const FlatRange part = Intersect(FlatRange{begin, count}, FlatRange{local, range.count});
      if (part.count > 0) visit(range.begin + part.begin - local, part.count);
      local += range.count;
    }
  }

  bool two_;
  std::vector<HeldRange> rows_, columns_;
  int64_t width_ = 0;
};

bool Meet(const Region& a, const Region& b) {
  for (size_t d = 0; d < a.size.size(); ++d) {
    if (Intersect(FlatRange{a.begin[d], a.size[d]}, FlatRange{b.begin[d], b.size[d]}).count == 0)
      return false;
  }
  return true;
}

// The dimension along which most regions begin at places of their own.
size_t MostCut(const std::vector<Region>& regions) {
  size_t most = 0, places = 0;
  for (size_t d = 0; d < regions.front().begin.size(); ++d) {
    std::set<int64_t> begins;
    for (const Region& region : regions) begins.insert(region.begin[d]);
    if (begins.size() > places) most = d, places = begins.size();
  }
  return most;
}

// Two of the regions, none empty and all of one shape's dimensions, that have elements in common. Each is
// compared only with those that reach it along one dimension: there may be one for each row of a matrix.
std::optional<std::string> OverlapOf(const std::vector<Region>& regions) {
  if (regions.empty()) return std::nullopt;
  const size_t d = MostCut(regions);
  std::vector<const Region*> order, open;
  for (const Region& region : regions) order.push_back(&region);
  std::stable_sort(order.begin(), order.end(),
                   [d](const Region* a, const Region* b) { return a->begin[d] < b->begin[d]; });
  for (const Region* region : order) {
    std::erase_if(
        open, [&](const Region* before) { return before->begin[d] + before->size[d] <= region->begin[d]; });
    for (const Region* before : open) {
      if (Meet(*before, *region)) return StrCat(before->Describe(), " and ", region->Describe(), " overlap");
    }
    open.push_back(region);
  }
  return std::nullopt;
}

// Copies `size` elements of each dimension from `dim` on; strides are of elements.
void CopyBox(const std::vector<int64_t>& size, size_t dim, int64_t element_bytes, const std::byte* source,
             const std::vector<int64_t>& source_strides, std::byte* target,
             const std::vector<int64_t>& target_strides) {
  if (dim + 1 == size.size()) {
    std::memcpy(target, source, static_cast<size_t>(size[dim] * element_bytes));
    return;
  }
  for (int64_t i = 0; i < size[dim]; ++i) {
    CopyBox(size, dim + 1, element_bytes, source + i * source_strides[dim] * element_bytes, source_strides,
            target + i * target_strides[dim] * element_bytes, target_strides);
  }
}

std::vector<int64_t> StridesOf(const Region& region) {
  std::vector<int64_t> strides(region.size.size(), 1);
  for (size_t d = strides.size(); d-- > 1;) strides[d - 1] = strides[d] * region.size[d];
  return strides;
}

int64_t OffsetIn(const Region& region, const std::vector<int64_t>& place) {
  const std::vector<int64_t> strides = StridesOf(region);
  int64_t offset = 0;
  for (size_t d = 0; d < strides.size(); ++d) offset += (place[d] - region.begin[d]) * strides[d];
  return offset;
}

}  // namespace

int64_t Region::elements() const {
  int64_t count = 1;
  for (const int64_t n : size) count *= n;
  return count;
}

std::string Region::Describe() const {
  std::vector<std::string> parts;
  for (size_t d = 0; d < size.size(); ++d) parts.push_back(StrCat(begin[d], ":", begin[d] + size[d]));
  return StrCat("[", StrJoin(parts, ", "), "]");
}

Region WholeOf(const std::vector<int64_t>& shape) { return {std::vector<int64_t>(shape.size(), 0), shape}; }

Region Intersect(const Region& a, const Region& b) {
  Region both;
  for (size_t d = 0; d < a.size.size(); ++d) {
    const FlatRange part = Intersect(FlatRange{a.begin[d], a.size[d]}, FlatRange{b.begin[d], b.size[d]});
    both.begin.push_back(part.begin);
    both.size.push_back(part.count);
  }
  return both;
}

std::vector<Region> RegionsOf(const Parameter& parameter, const FlatRange& range) {
  std::vector<Region> regions;
  const LocalMatrix matrix(parameter);
  const int64_t width = matrix.width();
  int64_t at = range.begin;
  while (at < range.end()) {
    const int64_t row = at / width, column = at % width;
    const bool whole_rows = column == 0 && range.end() - at >= width;
    const int64_t rows = whole_rows ? (range.end() - at) / width : 1;
    const int64_t columns = whole_rows ? width : std::min(width - column, range.end() - at);
    matrix.AddBox(row, rows, column, columns, regions);
    at += rows * columns;
  }
  return regions;
}

void CopyShared(DType dtype, const Region& from, const std::byte* source, const Region& to,
                std::byte* target) {
  const Region both = Intersect(from, to);
  if (both.elements() == 0) return;
  const int64_t bytes = BytesFor(dtype, 1);
  // Whole rows that lie side by side in both are one copy.
  if (both.size.size() == 2 && from.size[1] == both.size[1] && to.size[1] == both.size[1]) {
    std::memcpy(target + OffsetIn(to, both.begin) * bytes, source + OffsetIn(from, both.begin) * bytes,
                static_cast<size_t>(both.elements() * bytes));
    return;
  }
  CopyBox(both.size, 0, bytes, source + OffsetIn(from, both.begin) * bytes, StridesOf(from),
          target + OffsetIn(to, both.begin) * bytes, StridesOf(to));
}

std::optional<std::string> WhyNotTiled(const std::vector<int64_t>& shape,
                                       const std::vector<Region>& regions) {
  const Region whole = WholeOf(shape);
  int64_t elements = 0;
  for (const Region& region : regions) {
    const bool sized = region.begin.size() == shape.size() && region.size.size() == shape.size();
    if (!sized || Intersect(region, whole) != region || region.elements() == 0)
      return StrCat(region.Describe(), " is no part of it");
    elements += std::min(region.elements(), whole.elements() - elements);  // more is an overlap
  }
  if (std::optional<std::string> overlap = OverlapOf(regions)) return overlap;
  if (elements == whole.elements()) return std::nullopt;
  return StrCat(whole.elements() - elements, " of ", whole.elements(), " elements are missing");
}

}  // namespace ftune
