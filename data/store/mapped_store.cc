#include "data/store/mapped_store.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace ftune {

MappedTokenStore::MappedTokenStore(std::vector<MappedShard> shards)
    : shards_(std::move(shards)), first_samples_{0}, first_rows_{0} {
  for (const MappedShard& shard : shards_) {
    first_samples_.push_back(first_samples_.back() + static_cast<int64_t>(shard.samples().size()));
    first_rows_.push_back(first_rows_.back() + shard.report().rows);
    report_.Merge(shard.report());
  }
}

MappedTokenStore::Place MappedTokenStore::Find(int64_t sample) const {
  const auto behind = std::upper_bound(first_samples_.begin(), first_samples_.end(), sample);
  const auto shard = static_cast<size_t>(behind - first_samples_.begin() - 1);
  return {shard, &shards_[shard].samples()[static_cast<size_t>(sample - first_samples_[shard])]};
}

SampleInfo MappedTokenStore::info(int64_t sample) const {
  const Place place = Find(sample);
  return InfoOf(*place.record, shards_[place.shard].entry(), first_rows_[place.shard]);
}

std::span<const StoredToken> MappedTokenStore::tokens(int64_t sample) const {
  const Place place = Find(sample);
  return shards_[place.shard].tokens().subspan(place.record->begin, place.record->length);
}

absl::Status MappedTokenStore::VisitDropped(const DroppedVisitor& visit) const {
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    FTUNE_RETURN_IF_ERROR(shards_[shard].VisitDropped(first_rows_[shard], visit));
  }
  return absl::OkStatus();
}

}  // namespace ftune
