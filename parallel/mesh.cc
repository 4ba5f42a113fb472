#include "parallel/mesh.h"

#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr std::array<MeshAxis, kMeshAxes> kInnermostFirst = {MeshAxis::kTensor, MeshAxis::kContext,
                                                             MeshAxis::kData, MeshAxis::kPipeline};

}  // namespace

std::string_view Name(MeshAxis axis) {
  switch (axis) {
    case MeshAxis::kTensor:
      return "tensor";
    case MeshAxis::kContext:
      return "context";
    case MeshAxis::kData:
      return "data";
    case MeshAxis::kPipeline:
      return "pipeline";
  }
  return "";
}

int MeshShape::size(MeshAxis axis) const {
  switch (axis) {
    case MeshAxis::kTensor:
      return tensor;
    case MeshAxis::kContext:
      return context;
    case MeshAxis::kData:
      return data;
    case MeshAxis::kPipeline:
      return pipeline;
  }
  return 1;
}

int MeshShape::Coordinate(int rank, MeshAxis axis) const {
  for (const MeshAxis inner : kInnermostFirst) {
    if (inner == axis) break;
    rank /= size(inner);
  }
  return rank % size(axis);
}

std::vector<int> MeshShape::GroupOf(int rank, MeshAxis axis) const {
  int stride = 1;
  for (const MeshAxis inner : kInnermostFirst) {
    if (inner == axis) break;
    stride *= size(inner);
  }
  const int first = rank - Coordinate(rank, axis) * stride;
  std::vector<int> group;
  for (int i = 0; i < size(axis); ++i) group.push_back(first + i * stride);
  return group;
}

std::string MeshShape::Describe() const {
  std::vector<std::string> parts;
  for (const MeshAxis axis : kInnermostFirst) {
    if (size(axis) > 1) parts.push_back(StrCat(Name(axis), " ", size(axis)));
  }
  return parts.empty() ? "1 rank" : StrJoin(parts, " × ");
}

std::string MeshShape::Table(int ranks_per_host) const {
  std::string table;
  const bool hosts = ranks() > ranks_per_host;
  for (int rank = 0; rank < ranks(); ++rank) {
    StrAppend(table, rank > 0 ? "\n" : "", "rank ", rank, ":");
    if (hosts) StrAppend(table, " host ", rank / ranks_per_host, ",");
    std::vector<std::string> places;
    for (const MeshAxis axis : kInnermostFirst) {
      if (size(axis) > 1) places.push_back(StrCat(" ", Name(axis), " ", Coordinate(rank, axis)));
    }
    StrAppend(table, StrJoin(places, ","));
  }
  return table;
}

Mesh::Mesh(const MeshShape& shape, std::unique_ptr<Communicator> world)
    : shape_(shape), world_(std::move(world)) {}

Mesh::Mesh() : Mesh(MeshShape(), MakeSingleCommunicator()) {
  for (auto& axis : axes_) axis = MakeSingleCommunicator();
}

absl::StatusOr<std::unique_ptr<Mesh>> Mesh::Create(const MeshShape& shape,
                                                   std::unique_ptr<Communicator> world) {
  std::unique_ptr<Mesh> mesh(new Mesh(shape, std::move(world)));
  for (const MeshAxis axis : kInnermostFirst) {
    std::unique_ptr<Communicator>& group = mesh->axes_[static_cast<size_t>(axis)];
    if (shape.size(axis) == 1) {
      group = MakeSingleCommunicator();
    } else {
      FTUNE_ASSIGN_OR_RETURN(group, mesh->world_->Split(shape.GroupOf(mesh->rank(), axis)));
    }
  }
  return mesh;
}

CommTraffic Mesh::traffic() const {
  CommTraffic total = world_->traffic();
  for (const std::unique_ptr<Communicator>& axis : axes_) total += axis->traffic();
  return total;
}

absl::Status Mesh::status() const {
  FTUNE_RETURN_IF_ERROR(world_->status());
  for (const auto& axis : axes_) FTUNE_RETURN_IF_ERROR(axis->status());
  return absl::OkStatus();
}

void Mesh::set_timeout(absl::Duration timeout) { world_->set_timeout(timeout); }

}  // namespace ftune
