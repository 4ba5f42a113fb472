// Where a rank's files of a checkpoint go: the run's folder, or, from a host that does not see it, the rank
// that does.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/checkpoint/shard_file.h"
#include "parallel/comm/communicator.h"

namespace ftune {

class ShardSink {
 public:
  virtual ~ShardSink() = default;
  // One file after another: its size, its bytes in pieces, its end.
  virtual absl::Status Begin(const std::string& name, int64_t bytes) = 0;
  virtual absl::Status Append(std::span<const std::byte> bytes) = 0;
  virtual absl::StatusOr<CheckpointFile> Finish() = 0;
};

// Files in a folder, which is there.
std::unique_ptr<ShardSink> MakeFolderSink(std::filesystem::path folder);

// Files that the rank `to` of the group is given, where ReceiveShards puts them into a folder. After an error
// of its own the sender still has to call End, which the receiver waits for.
class RemoteSink final : public ShardSink {
 public:
  RemoteSink(Communicator& group, int to) : group_(group), to_(to) {}
  absl::Status Begin(const std::string& name, int64_t bytes) override;
  absl::Status Append(std::span<const std::byte> bytes) override;
  absl::StatusOr<CheckpointFile> Finish() override;
  // No more files.
  absl::Status End();

 private:
  Communicator& group_;
  int to_;
  CheckpointFile file_;
  int64_t left_ = 0;
  Xxh3Stream hash_;
};

// Takes all files of the rank `from`. An error of the disk is returned when all have come.
absl::Status ReceiveShards(Communicator& group, int from, ShardSink& sink);

}  // namespace ftune
