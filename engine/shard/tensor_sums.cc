#include "engine/shard/tensor_sums.h"

#include <set>

#include "base/error.h"
#include "engine/shard/arena.h"

namespace ftune {

absl::StatusOr<TensorSums> TensorSums::Create(Mesh& mesh, Model& model) {
  TensorSums sums;
  sums.axis_ = &mesh.axis(MeshAxis::kTensor);
  std::set<int> sizes;
  for (const auto& block : model.blocks()) {
    sums.ranges_.push_back(PartialRangesOf(block->store()));
    for (const PartialRange& partial : sums.ranges_.back()) sizes.insert(partial.replicas);
  }
  for (const int size : sizes) {
    if (size <= 1 || size == sums.axis_->size()) continue;
    std::vector<int> neighbours;
    for (int i = 0; i < size; ++i) neighbours.push_back(sums.axis_->rank() / size * size + i);
    FTUNE_ASSIGN_OR_RETURN(sums.parts_[size], sums.axis_->Split(neighbours));
  }
  return sums;
}

Communicator& TensorSums::GroupOf(int replicas) {
  return replicas == axis_->size() ? *axis_ : *parts_.at(replicas);
}

void TensorSums::Reduce(Stream stream, Model& model, size_t block) {
  for (const PartialRange& partial : ranges_[block]) {
    if (partial.replicas <= 1) continue;
    const Tensor part =
        model.blocks()[block]->store().flat_gradients().Cols(partial.range.begin, partial.range.count);
    // An error stays in the group.
    GroupOf(partial.replicas).Run(Call::AllReduce(BufferOf(stream, part))).IgnoreError();
  }
}

CommTraffic TensorSums::traffic() const {
  CommTraffic total;
  for (const auto& [size, part] : parts_) total += part->traffic();
  return total;
}

absl::Status TensorSums::status() const {
  for (const auto& [size, part] : parts_) FTUNE_RETURN_IF_ERROR(part->status());
  return absl::OkStatus();
}

}  // namespace ftune
