// How a tensor lies over the ranks of one mesh axis, and which slices of a dimension a rank holds.
#pragma once

#include <cstdint>
#include <vector>

namespace ftune {

enum class PlacementKind : uint8_t {
  kReplicate,  // every rank has all of it
  kShard,      // each has a slice of one dimension
  kPartial,    // each has a term of the sum
};

struct Placement {
  PlacementKind kind = PlacementKind::kReplicate;
  int dim = -1;  // of kShard

  static constexpr Placement Replicate() { return {}; }
  static constexpr Placement Shard(int dim) { return {PlacementKind::kShard, dim}; }
  static constexpr Placement Partial() { return {PlacementKind::kPartial, -1}; }
  bool operator==(const Placement&) const = default;
};

// A rank's place on an axis.
struct AxisPosition {
  int rank = 0;
  int size = 1;
  bool operator==(const AxisPosition&) const = default;
};

// Elements of a dimension that lie side by side, and of which parts stay together: heads, or single rows.
struct Section {
  int64_t parts = 0;
  int64_t part_size = 1;  // elements
  // With fewer parts than ranks, of which they are then a divisor, as many ranks side by side hold the same
  // part. Otherwise some ranks would hold none.
  bool replicated = false;

  int64_t size() const { return parts * part_size; }
};

// Elements that a rank holds of a dimension.
struct HeldRange {
  int64_t begin = 0;  // in the whole dimension
  int64_t count = 0;
  int replicas = 1;  // ranks side by side that hold the same, this one among them
};

// A dimension of a global shape, as a rank of an axis holds it: all of it, or of each section a slice.
class Dimension {
 public:
  Dimension(int64_t size) : size_(size) {}  // NOLINT: all of it
  // Each section is cut into shares that differ by at most one part. With one rank nothing is cut.
  Dimension(std::vector<Section> sections, const AxisPosition& position);

  int64_t size() const { return size_; }
  bool sharded() const { return !sections_.empty(); }
  // In ascending order; on the rank they lie side by side.
  std::vector<HeldRange> held() const;
  int64_t local_size() const;
  // Where in the whole the first element lies that the rank holds.
  int64_t first() const;
  // The most that a rank holds.
  int64_t largest_local_size() const;
  // The same, as another rank holds it.
  Dimension On(int rank) const;

 private:
  int64_t size_;
  AxisPosition position_;
  std::vector<Section> sections_;  // empty: not cut
};

}  // namespace ftune
