#include "data/prepare/shard_sink.h"

#include <utility>

#include "base/error.h"

namespace ftune {

absl::Status StoreShardSink::Add(uint32_t shard, int32_t entry, const TokenBlock& block) {
  if (writer_ && shard_ != shard) FTUNE_RETURN_IF_ERROR(CommitShard());
  if (!writer_) {
    FTUNE_ASSIGN_OR_RETURN(ShardWriter writer,
                           ShardWriter::Create(folder_, {.key = key_, .index = shard}, entry));
    writer_.emplace(std::move(writer));
    shard_ = shard;
  }
  return writer_->Add(block);
}

absl::Status StoreShardSink::CommitShard() {
  FTUNE_RETURN_IF_ERROR(writer_->Commit());
  writer_.reset();
  FTUNE_ASSIGN_OR_RETURN(MappedShard shard, MappedShard::Open(folder_, {.key = key_, .index = shard_}));
  finished_.emplace(shard_, std::move(shard));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<MappedShard>> StoreShardSink::Finish(uint32_t count) {
  if (writer_) FTUNE_RETURN_IF_ERROR(CommitShard());
  std::vector<MappedShard> shards;
  for (auto& [index, shard] : finished_) {
    if (index < count) shards.push_back(std::move(shard));
  }
  return shards;
}

}  // namespace ftune
