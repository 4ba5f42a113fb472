#include "engine/shard/sharded_gradients.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/error.h"

namespace ftune {
namespace {

constexpr int64_t kBytes = sizeof(float);

}  // namespace

ShardedGradients::ShardedGradients(Backend& backend, Stream stream, Model& model, const DataGroups& groups,
                                   TensorSums& tensor_sums, TiedSum& tied_sum, const ShardOptions& options,
                                   std::vector<std::vector<int64_t>> cuts)
    : backend_(backend),
      stream_(stream),
      model_(model),
      groups_(groups),
      tensor_sums_(tensor_sums),
      tied_sum_(tied_sum),
      options_(options),
      cuts_(std::move(cuts)),
      places_(model.blocks().size()),
      share_at_(model.blocks().size()),
      empty_shares_(model.blocks().size(), true) {
  const bool alone = groups.shards().size() == 1 && groups.copies().size() == 1;
  if (options.compression.kind != Compression::kNone && !alone) {
    compressed_.emplace(backend, stream, model, groups_, options.compression, cuts_);
  }
  const size_t blocks = model.blocks().size();
  for (size_t i = blocks; i-- > 0;) {
    const int64_t bytes = model.blocks()[i]->store().trainable_size() * kBytes;
    if (!by_block()) {
      places_[i] = memory_.Reserve(bytes);
      continue;
    }
    // Places are the same on all ranks.
    share_at_[i] = shares_.Reserve(*std::max_element(cuts_[i].begin(), cuts_[i].end()) * kBytes);
    if (!passes(i)) {
      places_[i] = tied_.Reserve(bytes);
      continue;
    }
    Slot& slot = slots_[SlotOfBlock(i)];
    slot.bytes = std::max(slot.bytes, bytes);
  }
  if (!by_block()) return;
  for (Slot& slot : slots_) slot.at = memory_.Reserve(slot.bytes);
  for (size_t i = 0; i < blocks; ++i) {
    if (passes(i)) places_[i] = slots_[SlotOfBlock(i)].at;
  }
}

ShardedGradients::~ShardedGradients() { Settle(); }

absl::Status ShardedGradients::Allocate() {
  const bool alone = groups_.shards().size() == 1 && groups_.copies().size() == 1;
  Communicator& group = by_block() || groups_.copies().size() == 1 ? groups_.shards() : groups_.copies();
  if (!alone) {
    FTUNE_RETURN_IF_ERROR(
        memory_.Allocate(backend_, group, by_block() ? Category::kCommunication : Category::kGradients));
    FTUNE_RETURN_IF_ERROR(tied_.Allocate(backend_, groups_.shards(), Category::kGradients));
    FTUNE_RETURN_IF_ERROR(shares_.Allocate(backend_, groups_.shards(), Category::kGradients));
  }
  for (size_t i = 0; i < places_.size(); ++i) {
    ParameterStore& store = model_.blocks()[i]->store();
    if (!store.has_trainable()) continue;
    if (alone) {
      if (!store.flat_gradients().defined()) store.AllocateGradients(backend_, stream_);
      continue;
    }
    const Arena& memory = by_block() && !passes(i) ? tied_ : memory_;
    const Tensor flat = memory.At(places_[i], DType::kF32, store.trainable_size());
    store.PlaceGradients(flat);
    store.OwnGradients(by_block() ? shares_.At(share_at_[i], DType::kF32, store.owned().count)
                                  : OwnIn(i, flat));
  }
  if (compressed_) compressed_->Allocate();
  model_.BindAll();
  return absl::OkStatus();
}

Tensor ShardedGradients::OwnIn(size_t block, const Tensor& flat) const {
  const int rank = groups_.shards().rank();
  return flat.Cols(Offsets(cuts_[block])[rank], cuts_[block][rank]);
}

void ShardedGradients::BeginStep() {
  empty_shares_.assign(empty_shares_.size(), true);
  bucket_begin_ = bucket_end_ = 0;
  for (size_t i = 0; i < places_.size(); ++i) {
    const ParameterStore& store = model_.blocks()[i]->store();
    if (!passes(i) && store.has_trainable()) backend_.Zero(stream_, store.flat_gradients());
  }
}

void ShardedGradients::Before(size_t block) {
  if (!passes(block)) return;
  Slot& slot = slots_[SlotOfBlock(block)];
  Absorb(slot);
  if (slot.block == block) return;
  assert(!slot.block);
  slot.block = block;
  backend_.Zero(stream_, model_.blocks()[block]->store().flat_gradients());
}

void ShardedGradients::After(size_t block, bool last) {
  if (tied_sum_.concerns(block)) return;  // complete when the other home's is: Finish
  if (!by_block()) {
    if (!last) return;
    tensor_sums_.Reduce(stream_, model_, block);
    ReduceWhole(block);
    return;
  }
  tensor_sums_.Reduce(stream_, model_, block);
  const ParameterStore& store = model_.blocks()[block]->store();
  Slot& slot = slots_[SlotOfBlock(block)];
  assert(slot.block == block);
  slot.leaving = true;
  slot.last = last;
  slot.direct = empty_shares_[block];
  empty_shares_[block] = false;
  slot.scattered = StartScatter(block, store.flat_gradients(),
                                slot.direct ? store.owned_gradients() : OwnIn(block, store.flat_gradients()));
}

void ShardedGradients::ReduceTied() {
  constexpr size_t kTied = 0;
  if (!tied_sum_.concerns(kTied)) return;
  const ParameterStore& store = model_.blocks()[kTied]->store();
  tied_sum_.Reduce(stream_, model_);
  tensor_sums_.Reduce(stream_, model_, kTied);
  if (!by_block()) return ReduceWhole(kTied);
  // An error stays in the group.
  StartScatter(kTied, store.flat_gradients(), store.owned_gradients()).Wait().IgnoreError();
  SumCopies(kTied, store.owned_gradients());
}

Pending ShardedGradients::StartScatter(size_t block, const Tensor& flat, const Tensor& out) {
  if (compressed_ && !compressed_->over_copies()) {
    compressed_->Scatter(block, flat, out);
    return {};
  }
  return groups_.shards().Start(
      Call::ReduceScatter(BufferOf(stream_, flat), BufferOf(stream_, out), cuts_[block]));
}

void ShardedGradients::StartCopiesSum(const Tensor& part) {
  if (groups_.copies().size() == 1) return;
  sums_.push_back(groups_.copies().Start(Call::AllReduce(BufferOf(stream_, part))));
}

void ShardedGradients::SumCopies(size_t block, const Tensor& part) {
  if (compressed_ && compressed_->over_copies()) return compressed_->SumCopies(block, part);
  StartCopiesSum(part);
}

void ShardedGradients::ReduceWhole(size_t block) {
  const ParameterStore& store = model_.blocks()[block]->store();
  if (groups_.shards().size() > 1) {
    scattered_.push_back(
        {block, StartScatter(block, store.flat_gradients(), OwnIn(block, store.flat_gradients()))});
    SumCopiesUpTo(1);
    return;
  }
  if (compressed_) return compressed_->SumCopies(block, store.flat_gradients());
  // Blocks lie in the order of backward: what is complete is one range, until a schedule leaps over one.
  if (places_[block] != Arena::PlaceAfter(bucket_end_)) {
    SumBuckets(true);
    bucket_begin_ = places_[block];
  }
  bucket_end_ = places_[block] + store.trainable_size() * kBytes;
  SumBuckets(false);
}

void ShardedGradients::SumCopiesUpTo(size_t left) {
  while (scattered_.size() > left) {
    // An error stays in the group.
    scattered_.front().pending.Wait().IgnoreError();
    const size_t block = scattered_.front().block;
    SumCopies(block, model_.blocks()[block]->store().owned_gradients());
    scattered_.pop_front();
  }
}

void ShardedGradients::SumBuckets(bool all) {
  const int64_t bucket = std::max<int64_t>(kBytes, options_.bucket_bytes / kBytes * kBytes);
  while (bucket_begin_ < bucket_end_ && (all || bucket_end_ - bucket_begin_ >= bucket)) {
    const int64_t bytes = std::min(bucket, bucket_end_ - bucket_begin_);
    StartCopiesSum(memory_.At(bucket_begin_, DType::kF32, bytes / kBytes));
    bucket_begin_ += bytes;
  }
}

void ShardedGradients::Absorb(Slot& slot) {
  if (!slot.leaving) return;
  std::exchange(slot.scattered, {}).Wait().IgnoreError();
  const ParameterStore& store = model_.blocks()[*slot.block]->store();
  if (!slot.direct && store.owned().count > 0) {
    backend_.Add(stream_, OwnIn(*slot.block, store.flat_gradients()), store.owned_gradients());
  }
  if (slot.last) SumCopies(*slot.block, store.owned_gradients());
  slot.leaving = false;
  slot.block.reset();
}

void ShardedGradients::Finish() {
  ReduceTied();
  SumBuckets(true);
  Settle();
}

void ShardedGradients::Settle() {
  SumCopiesUpTo(0);
  for (Slot& slot : slots_) Absorb(slot);
  for (Pending& sum : std::exchange(sums_, {})) sum.Wait().IgnoreError();
}

}  // namespace ftune
