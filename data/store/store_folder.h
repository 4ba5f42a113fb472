// The folder of a store: its shards, and a manifest that is written when all of them are there.
//
//   KEY/key.json              what the key is the hash of, for people
//   KEY/lock                  held by the process that prepares
//   KEY/shard-00000000.tokens …
//   KEY/manifest.json         the number of shards, and their counts
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/xxh3_stream.h"
#include "data/store/mapped_store.h"

namespace ftune {

class StoreFolder {
 public:
  StoreFolder(std::filesystem::path folder, const Hash128& key) : folder_(std::move(folder)), key_(key) {}

  const std::filesystem::path& path() const { return folder_; }

  bool HasManifest() const;
  // Reads every byte. What is torn, altered or of another store is an error.
  absl::StatusOr<std::shared_ptr<const MappedTokenStore>> Open(int threads) const;

  struct Shards {
    std::map<uint32_t, MappedShard> good;
    std::vector<absl::Status> bad;  // why the others are not
  };
  // The shards that are there, finished or not, each read whole.
  absl::StatusOr<Shards> FindShards(int threads) const;
  // Temporary files of processes that did not come to their end. Nobody else writes to the folder.
  absl::Status RemoveUnfinished() const;
  absl::Status WriteManifest(const MappedTokenStore& store) const;

 private:
  std::filesystem::path Manifest() const { return folder_ / "manifest.json"; }
  std::string ManifestText(const MappedTokenStore& store) const;

  std::filesystem::path folder_;
  Hash128 key_;
};

// A store's folder, taken for writing by this process for as long as this lives.
class StoreLock {
 public:
  // Nothing where another process has it and `wait` is false.
  static absl::StatusOr<std::unique_ptr<StoreLock>> Take(const std::filesystem::path& folder, bool wait);
  StoreLock(const StoreLock&) = delete;
  StoreLock& operator=(const StoreLock&) = delete;
  ~StoreLock();

 private:
  explicit StoreLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace ftune
