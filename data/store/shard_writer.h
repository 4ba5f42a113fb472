// Writes a shard file as its rows are made; it appears complete or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "base/xxh3_stream.h"
#include "data/store/shard_format.h"
#include "data/store/token_block.h"

namespace ftune {

// Tokens go to the file as they come; the rest, a few bytes a sample, stays in memory until Commit.
class ShardWriter {
 public:
  static absl::StatusOr<ShardWriter> Create(const std::filesystem::path& folder, const ShardId& id,
                                            int32_t entry);

  // The rows behind those that were added so far.
  absl::Status Add(const TokenBlock& block);
  // The file is on the disk, under its name, when this is done.
  absl::Status Commit();

 private:
  explicit ShardWriter(AtomicFile file) : file_(std::move(file)) {}
  absl::Status Write(std::string_view bytes);
  absl::Status Pad(uint64_t bytes);

  AtomicFile file_;
  Xxh3Stream hash_;
  ShardFooter footer_;
  std::vector<SampleRecord> samples_;
  std::string dropped_;
  DataReport report_;
};

}  // namespace ftune
