// Sums of gradients over the slow part of the data axis, of which compressed values cross the links: over the
// copies where there are several, else over the ranks that share out the one. So with hybrid sharding what
// stays inside a host is summed as it is.
//
// A block is summed at a time and by the thread that computes, which waits.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "engine/model/model.h"
#include "engine/shard/data_groups.h"
#include "parallel/comm/compression/compressed_reducer.h"

namespace ftune {

class CompressedSums {
 public:
  // `cuts` has, for each block, the elements that each rank of groups.shards() updates. All outlive it.
  CompressedSums(Backend& backend, Stream stream, Model& model, const DataGroups& groups,
                 const CompressionOptions& options, const std::vector<std::vector<int64_t>>& cuts);

  // What the sums will owe, of which there is nothing yet.
  void Allocate();

  // What the sums lack so far is brought to the ranks that own it, where the next sum takes it up as it is.
  // It is then this, of which each element is on one rank: `range` of the block's flat tensor. Called by all
  // ranks, before a checkpoint.
  absl::Status TakeOwed();
  struct OwedPart {
    FlatRange range;
    Tensor values;  // [1, range.count] f32
  };
  OwedPart owed(size_t block) const;

  // Whether this sums over the copies, else it scatters over the shares.
  bool over_copies() const { return groups_.copies().size() > 1; }
  // A block's part that this rank updates, in place. An error stays in the group.
  void SumCopies(size_t block, const Tensor& part);
  // A block's whole gradient to the part that this rank updates.
  void Scatter(size_t block, const Tensor& flat, const Tensor& out);

 private:
  // In global coordinates: element i is that of the block's gradient, or of this rank's part of it.
  struct Owed {
    Tensor sent, owned;
    Residuals residuals() const;
  };

  Backend& backend_;
  Stream stream_;
  Model& model_;
  const DataGroups& groups_;
  const std::vector<std::vector<int64_t>>& cuts_;
  std::unique_ptr<Compressor> compressor_;
  CompressedReducer reducer_;
  std::vector<std::vector<int64_t>> counts_;  // by block: elements of each rank of the group that sums
  std::vector<Owed> owed_;                    // by block
};

}  // namespace ftune
