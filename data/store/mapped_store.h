// Samples in mapped shard files.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/store/mapped_shard.h"
#include "data/store/token_store.h"

namespace ftune {

class MappedTokenStore : public TokenStore {
 public:
  // All shards of a store, in order.
  explicit MappedTokenStore(std::vector<MappedShard> shards);

  int64_t size() const override { return first_samples_.back(); }
  SampleInfo info(int64_t sample) const override;
  std::span<const StoredToken> tokens(int64_t sample) const override;
  absl::Status VisitDropped(const DroppedVisitor& visit) const override;

  const DataReport& report() const { return report_; }
  const std::vector<MappedShard>& shards() const { return shards_; }

 private:
  struct Place {
    size_t shard = 0;
    const SampleRecord* record = nullptr;
  };
  Place Find(int64_t sample) const;

  std::vector<MappedShard> shards_;
  std::vector<int64_t> first_samples_, first_rows_;  // of each shard, and behind the last
  DataReport report_;
};

}  // namespace ftune
