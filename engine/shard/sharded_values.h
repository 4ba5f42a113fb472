// The values of a model's parameters on one rank: whole, or only a share of each block between its uses.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "engine/model/model.h"
#include "engine/shard/arena.h"
#include "engine/shard/block_slots.h"
#include "engine/shard/shard_options.h"

namespace ftune {

class ShardedValues {
 public:
  // `group` shares out the values, with ZeRO-3, and what the ranks update of them; `cuts` has, for each
  // block, the elements that each rank updates. Both and the model outlive it.
  ShardedValues(Backend& backend, Stream stream, Model& model, Communicator& group,
                const ShardOptions& options, const std::vector<std::vector<int64_t>>& cuts);
  ~ShardedValues();  // waits for what was started
  ShardedValues(const ShardedValues&) = delete;
  ShardedValues& operator=(const ShardedValues&) = delete;

  // Gives the model's stores their memory. Called by all ranks of the group.
  absl::Status Allocate();

  // As in BlockHooks, without borrowing.
  void BeforeUse(size_t block);
  void AfterUse(size_t block);
  void BeforeFill(size_t block);
  void AfterChange(size_t block);
  // Begins to gather what will be used, unless its place is in use.
  void Prefetch(size_t block);
  // The ranks have updated what they own: gives the others what stays whole, in the background until the
  // block's next use.
  void Publish();
  // Until all that was started is done.
  void Settle();

 private:
  // A piece of a block's flat trainable or frozen values: of the small parameters, or of the others.
  struct Part {
    bool trainable = false;
    DType dtype = DType::kU8;
    int64_t size = 0;             // elements; bytes of frozen ones
    std::vector<int64_t> counts;  // of each rank's share
    bool sharded = false;         // only the share stays
    int64_t whole_at = 0;         // in the slot if sharded, else in whole_
    Tensor share;                 // this rank's; the whole where nothing is shared out
    Tensor whole;
    bool apart = false;    // the share is not a piece of the whole's memory
    bool current = false;  // what is in the slot is of this part
    Pending pending;       // that makes it so
  };
  struct BlockParts {
    std::array<Part, 4> parts;  // trainable: small, others; frozen: small, others
    FlatRange own;              // what this rank updates of the flat trainable tensor
    int64_t trainable_at = 0;   // in shares_: what this rank has of trainable ones, side by side
    int64_t frozen_at = 0;
    size_t slot = 0;
    bool sharded() const { return parts[1].sharded || parts[3].sharded; }
  };
  struct Slot {
    int64_t bytes = 0;
    int64_t at = 0;  // in gathered_
    std::optional<size_t> block;
    int uses = 0;
  };

  void PlanBlock(const ParameterStore& store, const std::vector<int64_t>& cut, BlockParts& block);
  void PlanPart(Part& part);
  void Place(size_t block);
  void PlacePart(const Slot& slot, const Tensor& share, Part& part);
  // Makes the slot the block's; what was there is lost.
  void Occupy(size_t block);
  void Gather(Part& part);
  Tensor OwnIn(const Part& part) const;

  Backend& backend_;
  Stream stream_;
  Model& model_;
  Communicator& group_;
  ShardOptions options_;
  std::vector<BlockParts> blocks_;
  std::vector<Slot> slots_;
  Arena shares_, whole_, gathered_;
};

}  // namespace ftune
