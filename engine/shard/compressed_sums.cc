#include "engine/shard/compressed_sums.h"

#include <algorithm>
#include <span>

#include "base/error.h"

namespace ftune {
namespace {

constexpr int64_t kUnit = 16;  // elements: shares begin on cache lines

std::span<float> Floats(const Tensor& tensor) {
  return {reinterpret_cast<float*>(tensor.bytes()), static_cast<size_t>(tensor.size())};
}

}  // namespace

CompressedSums::CompressedSums(Backend& backend, Stream stream, Model& model, const DataGroups& groups,
                               const CompressionOptions& options,
                               const std::vector<std::vector<int64_t>>& cuts)
    : backend_(backend),
      stream_(stream),
      model_(model),
      groups_(groups),
      cuts_(cuts),
      compressor_(MakeCompressor(options)),
      reducer_(over_copies() ? groups.copies() : groups.shards(), *compressor_) {}

Residuals CompressedSums::Owed::residuals() const { return {.sent = Floats(sent), .owned = Floats(owned)}; }

void CompressedSums::Allocate() {
  const auto zero = [&](int64_t count) {
    if (count == 0) return Tensor();
    const Tensor tensor = backend_.Allocate(DType::kF32, 1, count, Category::kCommunication);
    backend_.Zero(stream_, tensor);
    return tensor;
  };
  for (size_t block = 0; block < cuts_.size(); ++block) {
    const int64_t part = cuts_[block][groups_.shards().rank()];
    Owed& owed = owed_.emplace_back();
    if (over_copies()) {
      const int copies = groups_.copies().size();
      counts_.push_back(EvenCounts(part, copies, kUnit));
      owed.sent = zero(part);
      owed.owned = zero(counts_.back()[groups_.copies().rank()]);
    } else {
      counts_.push_back(cuts_[block]);
      owed.sent = zero(model_.blocks()[block]->store().trainable_size());
    }
  }
}

CompressedSums::OwedPart CompressedSums::owed(size_t block) const {
  const Tensor& sent = owed_[block].sent;
  if (!sent.defined()) return {};
  const Communicator& group = over_copies() ? groups_.copies() : groups_.shards();
  const FlatRange own = {Offsets(counts_[block])[group.rank()], counts_[block][group.rank()]};
  // What is sent is the whole block, or, over copies, what this rank updates of it.
  const int64_t first = over_copies() ? model_.blocks()[block]->store().owned().begin : 0;
  return {{first + own.begin, own.count}, sent.Cols(own.begin, own.count)};
}

absl::Status CompressedSums::TakeOwed() {
  if (!backend_.computes()) return absl::OkStatus();
  std::vector<float> share;
  for (size_t block = 0; block < owed_.size(); ++block) {
    if (!owed_[block].sent.defined()) continue;
    const Tensor own = owed(block).values;
    share.assign(static_cast<size_t>(own.size()), 0.0f);
    Residuals residuals = owed_[block].residuals();
    FTUNE_RETURN_IF_ERROR(reducer_.TakeOwed(share, counts_[block], residuals));
    std::copy(share.begin(), share.end(), own.f32());
  }
  return absl::OkStatus();
}

void CompressedSums::SumCopies(size_t block, const Tensor& part) {
  if (!backend_.computes()) return reducer_.CallAllReduce(counts_[block]).IgnoreError();
  Residuals residuals = owed_[block].residuals();
  reducer_.AllReduce(Floats(part), counts_[block], residuals).IgnoreError();
}

void CompressedSums::Scatter(size_t block, const Tensor& flat, const Tensor& out) {
  if (!backend_.computes()) return reducer_.CallReduceScatter(counts_[block]).IgnoreError();
  Residuals residuals = owed_[block].residuals();
  reducer_.ReduceScatter(Floats(flat), counts_[block], Floats(out), residuals).IgnoreError();
}

}  // namespace ftune
