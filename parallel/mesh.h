// The mesh of ranks: which rank sits where, and with whom it talks. From the innermost axis to the outermost:
// tensor (within a host), context, data, pipeline.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "parallel/comm/communicator.h"

namespace ftune {

enum class MeshAxis : uint8_t { kTensor, kContext, kData, kPipeline };
inline constexpr int kMeshAxes = 4;
std::string_view Name(MeshAxis axis);

struct MeshShape {
  int tensor = 1;
  int context = 1;
  int data = 1;
  int pipeline = 1;

  int size(MeshAxis axis) const;
  int ranks() const { return tensor * context * data * pipeline; }
  // Where a rank sits on an axis.
  int Coordinate(int rank, MeshAxis axis) const;
  // The ranks that differ from this one on the axis only, itself among them, in order of the axis.
  std::vector<int> GroupOf(int rank, MeshAxis axis) const;
  // "tensor 2 × data 4"; axes of one are left out, "1 rank" if all are.
  std::string Describe() const;
  // A line a rank: "rank 5: tensor 1, data 2"; with hosts of `ranks_per_host` each.
  std::string Table(int ranks_per_host) const;

  bool operator==(const MeshShape&) const = default;
};

// For each rank of the world the sum of `values`, which are by rank, over its group on the axis, or over its
// neighbours there, `neighbours` of them (0: all): what an all-reduce gives, to the bit.
template <class T>
std::vector<T> SumOverAxis(const MeshShape& shape, MeshAxis axis, const std::vector<T>& values,
                           int neighbours = 0) {
  std::vector<T> sums;
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    const std::vector<int> group = shape.GroupOf(rank, axis);
    const int count = neighbours == 0 ? static_cast<int>(group.size()) : neighbours;
    const auto first = group.begin() + shape.Coordinate(rank, axis) / count * count;
    T sum = values[*first];
    for (auto member = first + 1; member != first + count; ++member) sum += values[*member];
    sums.push_back(sum);
  }
  return sums;
}

// A rank's communicators.
class Mesh {
 public:
  // One rank.
  Mesh();
  // `world` has as many ranks as the shape; called by all of them.
  static absl::StatusOr<std::unique_ptr<Mesh>> Create(const MeshShape& shape,
                                                      std::unique_ptr<Communicator> world);

  const MeshShape& shape() const { return shape_; }
  int rank() const { return world_->rank(); }
  int Coordinate(MeshAxis axis) const { return shape_.Coordinate(rank(), axis); }
  Communicator& world() { return *world_; }
  // Groups of one do nothing.
  Communicator& axis(MeshAxis axis) { return *axes_[static_cast<size_t>(axis)]; }

  // The first error of any of them: what all that was computed with them is worth.
  absl::Status status() const;
  CommTraffic traffic() const;  // of all
  void set_timeout(absl::Duration timeout);

 private:
  Mesh(const MeshShape& shape, std::unique_ptr<Communicator> world);

  MeshShape shape_;
  std::unique_ptr<Communicator> world_;
  std::array<std::unique_ptr<Communicator>, kMeshAxes> axes_;
};

}  // namespace ftune
