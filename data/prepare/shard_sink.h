// Samples into the shard files of a store's folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/prepare/build_entries.h"
#include "data/store/mapped_shard.h"
#include "data/store/shard_writer.h"

namespace ftune {

class StoreShardSink : public TokenSink {
 public:
  // `finished`: the shards that are there, by index.
  StoreShardSink(std::filesystem::path folder, const Hash128& key, std::map<uint32_t, MappedShard> finished)
      : folder_(std::move(folder)), key_(key), finished_(std::move(finished)) {}

  bool Has(uint32_t shard) const override { return finished_.contains(shard); }
  absl::Status Add(uint32_t shard, int32_t entry, const TokenBlock& block) override;
  // Once all was added: the shards [0, count).
  absl::StatusOr<std::vector<MappedShard>> Finish(uint32_t count);

 private:
  absl::Status CommitShard();

  std::filesystem::path folder_;
  Hash128 key_;
  std::map<uint32_t, MappedShard> finished_;
  std::optional<ShardWriter> writer_;  // of shard_
  uint32_t shard_ = 0;
};

}  // namespace ftune
