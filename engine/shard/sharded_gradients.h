// The gradients of a model on one rank, and their sums over the data axis: all-reduced, or reduce-scattered
// to the ranks that update them. A block's are reduced while backward goes on with the blocks below.
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "engine/model/model.h"
#include "engine/shard/arena.h"
#include "engine/shard/block_slots.h"
#include "engine/shard/compressed_sums.h"
#include "engine/shard/data_groups.h"
#include "engine/shard/shard_options.h"
#include "engine/shard/tensor_sums.h"
#include "engine/shard/tied_sum.h"

namespace ftune {

// Up to ZeRO-1 the whole gradient stays and is reduced once, with the last microbatch. From ZeRO-2 on a
// block's exists from its first use to the end of its backward; then it is reduce-scattered and added to the
// rank's share. The gradient of a tied weight with another home (TiedSum) stays whole in every stage, until
// the step's end.
class ShardedGradients {
 public:
  // `cuts` has, for each block, the elements that each rank of groups.shards() updates. All but `cuts`
  // outlive it.
  ShardedGradients(Backend& backend, Stream stream, Model& model, const DataGroups& groups,
                   TensorSums& tensor_sums, TiedSum& tied_sum, const ShardOptions& options,
                   std::vector<std::vector<int64_t>> cuts);
  ~ShardedGradients();  // waits for what was started
  ShardedGradients(const ShardedGradients&) = delete;
  ShardedGradients& operator=(const ShardedGradients&) = delete;

  // Gives the model's stores their memory, unless one rank has all and they have it. Called by all ranks.
  absl::Status Allocate();

  // Null where sums are not compressed.
  CompressedSums* compressed() { return compressed_ ? &*compressed_ : nullptr; }

  // All zero.
  void BeginStep();
  // As in BlockHooks, without borrowing.
  void Before(size_t block);
  void After(size_t block, bool last);
  // The sums are where the ranks own them; nothing is on its way any more.
  void Finish();
  // Until all that was started is done.
  void Settle();

 private:
  bool by_block() const { return options_.zero >= 2 && groups_.shards().size() > 1; }
  // The block's gradient exists only from its use to its reduction.
  bool passes(size_t block) const { return by_block() && !tied_sum_.concerns(block); }
  size_t SlotOfBlock(size_t block) const { return SlotOf(model_, block); }
  Tensor OwnIn(size_t block, const Tensor& flat) const;
  Pending StartScatter(size_t block, const Tensor& flat, const Tensor& out);
  void StartCopiesSum(const Tensor& part);
  void SumCopies(size_t block, const Tensor& part);

  void ReduceTied();

  // Up to ZeRO-1.
  void ReduceWhole(size_t block);
  void SumCopiesUpTo(size_t left);  // of scattered blocks, all but the newest
  void SumBuckets(bool all);

  // From ZeRO-2 on.
  struct Slot {
    int64_t bytes = 0;
    int64_t at = 0;  // in memory_
    std::optional<size_t> block;
    bool leaving = false;  // it is being reduce-scattered
    bool last = false;     // of the step
    bool direct = false;   // into the share, to which otherwise it is added
    Pending scattered;
  };
  void Absorb(Slot& slot);

  Backend& backend_;
  Stream stream_;
  Model& model_;
  const DataGroups& groups_;
  TensorSums& tensor_sums_;
  TiedSum& tied_sum_;
  ShardOptions options_;
  std::vector<std::vector<int64_t>> cuts_;
  std::optional<CompressedSums> compressed_;  // none: sums are made of what there is

  Arena memory_;                    // whole gradients in the order of backward, or slots
  Arena tied_;                      // from ZeRO-2 on: the gradient that stays whole
  std::vector<int64_t> places_;     // of blocks in it
  Arena shares_;                    // from ZeRO-2 on
  std::vector<int64_t> share_at_;   // of blocks in it
  std::vector<bool> empty_shares_;  // nothing was added in this step
  std::array<Slot, kBlockSlots> slots_;

  int64_t bucket_begin_ = 0, bucket_end_ = 0;  // bytes of memory_ that are complete and not yet reduced
  struct Scattered {
    size_t block = 0;
    Pending pending;
  };
  std::deque<Scattered> scattered_;
  std::vector<Pending> sums_;  // over copies
};

}  // namespace ftune
