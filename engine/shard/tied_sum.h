// The gradient of a tied head's weight where a pipeline has put the head on another rank than the embedding:
// each of the two has its share of it, and both are given the sum, before any reduction over other axes. From
// there on both do the same, so that both homes of the weight stay equal to the bit.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "parallel/mesh.h"

namespace ftune {

class TiedSum {
 public:
  // Called by all ranks of the pipeline axis; those that have neither home get one that does nothing.
  static absl::StatusOr<TiedSum> Create(Mesh& mesh, const Model& model);

  // Whether this block's gradient is summed, once a step, when it is complete.
  bool concerns(size_t block) const { return pair_ != nullptr && block == 0; }
  // In place; waits. An error stays in the pair.
  void Reduce(Stream stream, Model& model);

  absl::Status status() const { return pair_ ? pair_->status() : absl::OkStatus(); }
  CommTraffic traffic() const { return pair_ ? pair_->traffic() : CommTraffic(); }

 private:
  std::unique_ptr<Communicator> pair_;  // null: nothing to sum
};

}  // namespace ftune
