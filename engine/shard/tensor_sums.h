// The sums over the tensor axis that a block's gradients need before anything else is done with them.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/shard/tensor_ranges.h"
#include "parallel/mesh.h"

namespace ftune {

class TensorSums {
 public:
  // `mesh` outlives it. Called by all ranks of the axis.
  static absl::StatusOr<TensorSums> Create(Mesh& mesh, Model& model);

  // In place, on the block's whole flat gradient; waits.
  void Reduce(Stream stream, Model& model, size_t block);
  absl::Status status() const;
  CommTraffic traffic() const;  // of groups that the mesh does not have

 private:
  // Of so many neighbours.
  Communicator& GroupOf(int replicas);

  Communicator* axis_ = nullptr;
  std::vector<std::vector<PartialRange>> ranges_;  // by block
  std::map<int, std::unique_ptr<Communicator>> parts_;
};

}  // namespace ftune
