// What layers know of the tensor axis: the ranks that share each product, each with its slice of the weights
// (Shoeybi et al., "Megatron-LM", 2019), and the tokens between the products (Korthikanti et al., "Reducing
// activation recomputation in large transformer models", 2022: sequence parallelism).
//
// Statuses stay in the communicator, where whoever uses the results looks at them. With one rank nothing is
// copied and nothing moves.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "parallel/comm/communicator.h"
#include "parallel/placement.h"

namespace ftune {

class TensorAxis {
 public:
  TensorAxis() = default;  // one rank
  // `comm` outlives all copies. With `sequence_parallel`, norms and residuals are of this rank's rows only.
  TensorAxis(Communicator& comm, bool sequence_parallel)
      : comm_(comm.size() > 1 ? &comm : nullptr),
        position_{comm.rank(), comm.size()},
        sequence_parallel_(sequence_parallel && comm.size() > 1) {}
  // Nothing moves: for backends that do not compute.
  TensorAxis(const AxisPosition& position, bool sequence_parallel)
      : position_(position), sequence_parallel_(sequence_parallel && position.size > 1) {}

  const AxisPosition& position() const { return position_; }
  int size() const { return position_.size; }
  bool sequence_parallel() const { return sequence_parallel_; }
  // How tokens lie over the ranks where no product has them: what sums over tokens are placed by.
  Placement tokens() const { return sequence_parallel_ ? Placement::Shard(0) : Placement::Replicate(); }

  // Of what was moved so far.
  absl::Status status() const { return comm_ != nullptr ? comm_->status() : absl::OkStatus(); }

  // This rank's rows, or, of [1, n], columns; without sequence parallelism all of them.
  Tensor OwnRows(const Tensor& all) const;
  Tensor OwnCols(const Tensor& all) const;
  int64_t FirstRow(int64_t rows) const;
  int64_t OwnRowCount(int64_t rows) const;

  // All `rows` rows, of those that each rank has; without sequence parallelism those given.
  Tensor Gathered(Backend& backend, Stream stream, const Tensor& own, int64_t rows) const;
  // The sum of all ranks' x, in its place: this rank's rows of it, a view, or without sequence parallelism
  // all of them. With one rank, x.
  Tensor Summed(Stream stream, const Tensor& x) const;

  // x, contiguous, becomes the sum, or greatest, of all ranks' x.
  void AllReduce(Stream stream, const Tensor& x, ReduceOp op = ReduceOp::kSum) const;
  // Bytes on the host: those of all ranks side by side, `counts` of each.
  void AllGather(std::span<const std::byte> own, const std::vector<int64_t>& counts,
                 std::span<std::byte> all) const;
  // All columns, of the slices that the ranks have of them.
  Tensor GatheredColumns(Backend& backend, Stream stream, const Tensor& own, const Dimension& columns) const;

 private:
  std::vector<int64_t> RowCounts(int64_t rows) const;
  void Run(Call call) const;

  Communicator* comm_ = nullptr;  // null: nothing moves
  AxisPosition position_;
  bool sequence_parallel_ = false;
};

}  // namespace ftune
