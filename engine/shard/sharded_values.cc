#include "engine/shard/sharded_values.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/error.h"

namespace ftune {
namespace {

constexpr int64_t kFrozenUnit = 64;  // bytes: frozen tensors start on cache lines

bool AllSmaller(const ParameterStore& store, bool trainable, int64_t threshold) {
  return std::all_of(store.parameters().begin(), store.parameters().end(),
                     [&](const Parameter& p) { return p.trainable != trainable || p.size() < threshold; });
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
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const ParameterStore& store = model.blocks()[i]->store();
    BlockParts& block = blocks_[i];
    PlanPart(store, true, cuts[i], block.parts[0]);
    PlanPart(store, false, EvenCounts(store.frozen_bytes(), group_.size(), kFrozenUnit), block.parts[1]);
    block.slot = SlotOf(i, blocks_.size(), model.config().tied_head);
    Arena turn;
    for (Part& part : block.parts) {
      if (part.sharded) part.slot_at = turn.Reserve(BytesFor(part.dtype, part.size));
    }
    Slot& slot = slots_[block.slot];
    slot.bytes = std::max(slot.bytes, turn.bytes());
  }
  for (Slot& slot : slots_) slot.at = gathered_.Reserve(slot.bytes);
}

ShardedValues::~ShardedValues() { Settle(); }

void ShardedValues::PlanPart(const ParameterStore& store, bool trainable, const std::vector<int64_t>& cut,
                             Part& part) {
  part.trainable = trainable;
  part.dtype = trainable ? store.trainable_dtype() : DType::kU8;
  part.size = trainable ? store.trainable_size() : store.frozen_bytes();
  part.counts = cut;
  part.sharded = options_.zero == 3 && group_.size() > 1 && part.size > 0 &&
                 !AllSmaller(store, trainable, options_.persistence_threshold);
  // Places are the same on all ranks.
  if (part.sharded) {
    part.kept_at =
        shares_.Reserve(BytesFor(part.dtype, *std::max_element(part.counts.begin(), part.counts.end())));
  } else if (trainable && group_.size() > 1) {
    part.kept_at = whole_.Reserve(BytesFor(part.dtype, part.size));
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
  ParameterStore& store = model_.blocks()[block]->store();
  for (Part& part : b.parts) {
    if (part.size == 0) continue;
    const int64_t own = part.counts[group_.rank()];
    if (part.sharded) {
      part.share = shares_.At(part.kept_at, part.dtype, own);
      part.whole = gathered_.At(slots_[b.slot].at + part.slot_at, part.dtype, part.size);
    } else if (part.trainable && group_.size() > 1) {
      part.whole = whole_.At(part.kept_at, part.dtype, part.size);
      part.share = OwnIn(part);
    } else {
      part.whole = backend_.Allocate(part.dtype, 1, part.size, Category::kWeights);
      part.share = part.whole;
    }
  }
  store.PlaceValues(b.parts[0].whole, b.parts[1].whole);
  const std::vector<int64_t>& counts = b.parts[0].counts;
  store.Own({Offsets(counts)[group_.rank()], counts[group_.rank()]}, b.parts[0].share);
}

Tensor ShardedValues::OwnIn(const Part& part) const {
  return part.whole.Cols(Offsets(part.counts)[group_.rank()], part.counts[group_.rank()]);
}

void ShardedValues::Gather(Part& part) {
  if (!part.sharded || part.current) return;
  part.current = true;
  if (!backend_.computes()) return;
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
    if (!part.sharded || part.share.size() == 0) continue;
    const Tensor own = OwnIn(part);
    backend_.Upload(stream_, {own.bytes(), static_cast<size_t>(BytesFor(own.dtype(), own.size()))},
                    part.share);
  }
}

void ShardedValues::Publish() {
  for (BlockParts& b : blocks_) {
    Part& part = b.parts[0];
    if (part.size == 0 || group_.size() == 1) continue;
    if (part.sharded) {
      part.current = false;
    } else if (backend_.computes()) {
      part.pending = group_.Start(
          Call::AllGather(BufferOf(stream_, part.share), BufferOf(stream_, part.whole), part.counts));
    }
  }
}

void ShardedValues::Settle() {
  for (BlockParts& b : blocks_) {
    for (Part& part : b.parts) std::exchange(part.pending, {}).Wait().IgnoreError();
  }
}

}  // namespace ftune
