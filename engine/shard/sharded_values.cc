#include "engine/shard/sharded_values.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/error.h"

namespace ftune {
namespace {

constexpr int64_t kFrozenUnit = 64;  // bytes: frozen tensors start on cache lines

// What each rank's share has of a range.
std::vector<int64_t> CountsIn(const FlatRange& range, const std::vector<int64_t>& counts) {
  std::vector<int64_t> in;
  int64_t begin = 0;
  for (const int64_t count : counts) {
    in.push_back(Intersect(range, {begin, count}).count);
    begin += count;
  }
  return in;
}

}  // namespace

ShardedValues::ShardedValues(Backend& backend, Stream stream, Model& model, Communicator& group,
                             const ShardOptions& options, const std::vector<std::vector<int64_t>>& cuts)
    : backend_(backend),
      stream_(stream),
      model_(model),
      group_(group),
      options_(options),
      blocks_(model.blocks().size()) {
  slots_.resize(options.reshard_after_use ? kBlockSlots : blocks_.size());
  for (size_t i = 0; i < blocks_.size(); ++i) {
    BlockParts& block = blocks_[i];
    PlanBlock(model.blocks()[i]->store(), cuts[i], block);
    // What stays has a slot of its own.
    block.slot = options.reshard_after_use ? SlotOf(model, i) : i;
    Arena turn;
    for (Part& part : block.parts) {
      if (part.sharded) part.whole_at = turn.Reserve(BytesFor(part.dtype, part.size));
    }
    Slot& slot = slots_[block.slot];
    slot.bytes = std::max(slot.bytes, turn.bytes());
  }
  for (Slot& slot : slots_) slot.at = gathered_.Reserve(slot.bytes);
}

ShardedValues::~ShardedValues() { Settle(); }

void ShardedValues::PlanBlock(const ParameterStore& store, const std::vector<int64_t>& cut,
                              BlockParts& block) {
  block.own = {Offsets(cut)[group_.rank()], cut[group_.rank()]};
  auto& [small, large, frozen_small, frozen_large] = block.parts;
  const int64_t small_size = store.small_trainable_size();
  const FlatRange large_range = {small_size, store.trainable_size() - small_size};
  small = {.trainable = true,
           .dtype = store.trainable_dtype(),
           .size = small_size,
           .counts = CountsIn({0, small_size}, cut)};
  large = {.trainable = true,
           .dtype = store.trainable_dtype(),
           .size = large_range.count,
           .counts = CountsIn(large_range, cut)};
  const int64_t frozen = store.frozen_bytes() - store.small_frozen_bytes();
  // Nobody updates frozen values: what stays whole needs no shares.
  frozen_small = {.size = store.small_frozen_bytes()};
  frozen_large = {.size = frozen, .counts = EvenCounts(frozen, group_.size(), kFrozenUnit)};

  large.sharded = frozen_large.sharded = options_.zero == 3 && group_.size() > 1;
  for (Part& part : block.parts) PlanPart(part);
  // Places are the same on all ranks.
  const auto reserve = [&](DType dtype, const std::vector<int64_t>& counts) {
    return shares_.Reserve(BytesFor(dtype, *std::max_element(counts.begin(), counts.end())));
  };
  // What an optimizer updates is side by side.
  small.apart = small.size > 0 && large.sharded;
  if (large.sharded) block.trainable_at = reserve(large.dtype, cut);
  if (frozen_large.sharded) block.frozen_at = reserve(frozen_large.dtype, frozen_large.counts);
}

void ShardedValues::PlanPart(Part& part) {
  part.sharded = part.apart = part.sharded && part.size > 0;
  if (!part.sharded && part.trainable && group_.size() > 1) {
    part.whole_at = whole_.Reserve(BytesFor(part.dtype, part.size));
  }
}

absl::Status ShardedValues::Allocate() {
  FTUNE_RETURN_IF_ERROR(shares_.Allocate(backend_, group_, Category::kWeights));
  FTUNE_RETURN_IF_ERROR(whole_.Allocate(backend_, group_, Category::kWeights));
  FTUNE_RETURN_IF_ERROR(gathered_.Allocate(backend_, group_, Category::kCommunication));
  for (size_t i = 0; i < blocks_.size(); ++i) Place(i);
  model_.BindAll();
  return absl::OkStatus();
}

void ShardedValues::Place(size_t block) {
  BlockParts& b = blocks_[block];
  auto& [small, large, frozen_small, frozen_large] = b.parts;
  const int64_t own_small = small.counts[group_.rank()], own_large = large.counts[group_.rank()];
  Tensor own;
  if (large.sharded) own = shares_.At(b.trainable_at, large.dtype, own_small + own_large);
  const Slot& slot = slots_[b.slot];
  PlacePart(slot, small.apart ? own.Cols(0, own_small) : Tensor(), small);
  PlacePart(slot, large.apart ? own.Cols(own_small, own_large) : Tensor(), large);
  PlacePart(slot, {}, frozen_small);
  PlacePart(slot,
            frozen_large.apart
                ? shares_.At(b.frozen_at, frozen_large.dtype, frozen_large.counts[group_.rank()])
                : Tensor(),
            frozen_large);

  ParameterStore& store = model_.blocks()[block]->store();
  store.PlaceValues({small.whole, large.whole}, {frozen_small.whole, frozen_large.whole});
  // With nothing sharded one of the two is empty.
  if (!large.sharded) own = small.size > 0 ? small.share : large.share;
  store.Own(b.own, own);
}

// `share`: where it is, if it is apart.
void ShardedValues::PlacePart(const Slot& slot, const Tensor& share, Part& part) {
  if (part.size == 0) return;
  if (part.sharded) {
    part.whole = gathered_.At(slot.at + part.whole_at, part.dtype, part.size);
  } else if (part.trainable && group_.size() > 1) {
    part.whole = whole_.At(part.whole_at, part.dtype, part.size);
  } else {
    part.whole = backend_.Allocate(part.dtype, 1, part.size, Category::kWeights);
  }
  part.share = part.apart ? share : part.trainable && group_.size() > 1 ? OwnIn(part) : part.whole;
}

Tensor ShardedValues::OwnIn(const Part& part) const {
  return part.whole.Cols(Offsets(part.counts)[group_.rank()], part.counts[group_.rank()]);
}

void ShardedValues::Gather(Part& part) {
  if (!part.sharded || part.current) return;
  part.current = true;
  part.pending = group_.Start(
      Call::AllGather(BufferOf(stream_, part.share), BufferOf(stream_, part.whole), part.counts));
}

void ShardedValues::Occupy(size_t block) {
  Slot& slot = slots_[blocks_[block].slot];
  if (slot.block == block) return;
  assert(slot.uses == 0);
  if (slot.block) {
    for (Part& part : blocks_[*slot.block].parts) {
      if (!part.sharded) continue;
      std::exchange(part.pending, {}).Wait().IgnoreError();
      part.current = false;
    }
  }
  slot.block = block;
}

void ShardedValues::BeforeUse(size_t block) {
  BlockParts& b = blocks_[block];
  if (b.sharded()) {
    Occupy(block);
    ++slots_[b.slot].uses;
  }
  for (Part& part : b.parts) Gather(part);
  // An error stays in the group.
  for (Part& part : b.parts) std::exchange(part.pending, {}).Wait().IgnoreError();
}

void ShardedValues::AfterUse(size_t block) {
  if (blocks_[block].sharded()) --slots_[blocks_[block].slot].uses;
}

void ShardedValues::Prefetch(size_t block) {
  BlockParts& b = blocks_[block];
  if (!b.sharded()) return;
  const Slot& slot = slots_[b.slot];
  if (slot.block != block && slot.uses > 0) return;
  Occupy(block);
  for (Part& part : b.parts) Gather(part);
}

void ShardedValues::BeforeFill(size_t block) {
  BlockParts& b = blocks_[block];
  if (!b.sharded()) return;
  Occupy(block);
  ++slots_[b.slot].uses;
  for (Part& part : b.parts) part.current = true;
}

void ShardedValues::AfterChange(size_t block) {
  if (!backend_.computes()) return;
  for (Part& part : blocks_[block].parts) {
    if (!part.apart || part.share.size() == 0) continue;
    const Tensor own = OwnIn(part);
    backend_.Upload(stream_, {own.bytes(), static_cast<size_t>(BytesFor(own.dtype(), own.size()))},
                    part.share);
  }
}

void ShardedValues::Publish() {
  if (group_.size() == 1) return;
  for (BlockParts& b : blocks_) {
    for (Part& part : b.parts) {
      if (part.size == 0 || !part.trainable) continue;
      if (part.sharded) {
        part.current = false;
      } else {
        part.pending = group_.Start(
            Call::AllGather(BufferOf(stream_, part.share), BufferOf(stream_, part.whole), part.counts));
      }
    }
  }
}

void ShardedValues::Settle() {
  for (BlockParts& b : blocks_) {
    for (Part& part : b.parts) std::exchange(part.pending, {}).Wait().IgnoreError();
  }
}

}  // namespace ftune
