#include "data/store/store_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/io_error.h"
#include "base/json_file.h"
#include "base/strings.h"
#include "data/store/build_in_parallel.h"

namespace ftune {
namespace {

constexpr int64_t kMaxShards = int64_t{1} << 32;

// The index of a file named as ShardName names them.
std::optional<uint32_t> IndexOf(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  unsigned index = 0;
  if (std::sscanf(name.c_str(), "shard-%8u.tokens", &index) != 1 || ShardName(index) != name) {
    return std::nullopt;
  }
  return index;
}

int64_t TrainedTokens(const MappedTokenStore& store) {
  int64_t trained = 0;
  for (const MappedShard& shard : store.shards()) {
    for (const SampleRecord& sample : shard.samples()) trained += sample.trained_tokens;
  }
  return trained;
}

}  // namespace

bool StoreFolder::HasManifest() const {
  std::error_code ignored;
  return std::filesystem::is_regular_file(Manifest(), ignored);
}

// A function of the shards, so that comparing it with the file is all the check that the file needs.
std::string StoreFolder::ManifestText(const MappedTokenStore& store) const {
  int64_t tokens = 0, bytes = 0;
  for (const MappedShard& shard : store.shards()) {
    tokens += static_cast<int64_t>(shard.tokens().size());
    bytes += shard.bytes();
  }
  const nlohmann::ordered_json json = {{"version", kShardVersion},
                                       {"key", HexOf(key_)},
                                       {"shards", store.shards().size()},
                                       {"bytes", bytes},
                                       {"rows", store.report().rows},
                                       {"samples", store.size()},
                                       {"tokens", tokens},
                                       {"trained_tokens", TrainedTokens(store)}};
  return json.dump(1) + "\n";
}

absl::StatusOr<std::shared_ptr<const MappedTokenStore>> StoreFolder::Open(int threads) const {
  FTUNE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(Manifest()));
  const std::string name = Manifest().string();
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(file.text(), name));
  FTUNE_ASSIGN_OR_RETURN(const int64_t version, RequiredField<int64_t>(json, "version", name));
  if (version != kShardVersion) {
    return DataError(
        {.file = name, .key = "version", .found = StrCat(version), .expected = StrCat(kShardVersion)});
  }
  FTUNE_ASSIGN_OR_RETURN(const int64_t count, RequiredField<int64_t>(json, "shards", name));
  if (count < 1 || count >= kMaxShards) {
    return DataError({.file = name, .key = "shards", .found = StrCat(count), .expected = "1 or more"});
  }
  // The last one first: a made-up number of shards must not cost anything.
  FTUNE_RETURN_IF_ERROR(MappedFile::Open(folder_ / ShardName(static_cast<uint32_t>(count - 1))).status());
  FTUNE_ASSIGN_OR_RETURN(
      std::vector<MappedShard> shards, BuildInParallel<MappedShard>(count, threads, [&](int64_t index) {
        return MappedShard::Open(folder_, {.key = key_, .index = static_cast<uint32_t>(index)});
      }));
  auto store = std::make_shared<const MappedTokenStore>(std::move(shards));
  if (ManifestText(*store) != file.text()) {
    return DataError({.file = name, .message = "it is not the manifest of the shards beside it"});
  }
  return store;
}

absl::StatusOr<StoreFolder::Shards> StoreFolder::FindShards(int threads) const {
  FTUNE_ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> paths, ListFolder(folder_));
  std::vector<uint32_t> indices;
  for (const std::filesystem::path& path : paths) {
    if (const auto index = IndexOf(path)) indices.push_back(*index);
  }
  using Outcome = absl::StatusOr<MappedShard>;
  FTUNE_ASSIGN_OR_RETURN(
      std::vector<Outcome> outcomes,
      BuildInParallel<Outcome>(
          static_cast<int64_t>(indices.size()), threads, [&](int64_t i) -> absl::StatusOr<Outcome> {
            return Outcome(
                MappedShard::Open(folder_, {.key = key_, .index = indices[static_cast<size_t>(i)]}));
          }));
  Shards shards;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (outcomes[i].ok()) {
      shards.good.emplace(indices[i], *std::move(outcomes[i]));
    } else {
      shards.bad.push_back(outcomes[i].status());
    }
  }
  return shards;
}

absl::Status StoreFolder::RemoveUnfinished() const {
  FTUNE_ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> paths, ListFolder(folder_));
  for (const std::filesystem::path& path : paths) {
    const std::string name = path.filename().string();
    if (!name.starts_with(".") || name.find(".tmp-") == std::string::npos) continue;
    if (unlink(path.c_str()) != 0 && errno != ENOENT) return IoError(path, "remove", errno);
  }
  return absl::OkStatus();
}

absl::Status StoreFolder::WriteManifest(const MappedTokenStore& store) const {
  return WriteFileAtomic(Manifest(), ManifestText(store));
}

absl::StatusOr<std::unique_ptr<StoreLock>> StoreLock::Take(const std::filesystem::path& folder, bool wait) {
  const std::filesystem::path path = folder / "lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return IoError(path, "create", errno);
  std::unique_ptr<StoreLock> lock(new StoreLock(fd));
  int result;
  do {
    result = flock(fd, LOCK_EX | (wait ? 0 : LOCK_NB));
  } while (result != 0 && errno == EINTR);
  if (result == 0) return lock;
  if (errno == EWOULDBLOCK) return nullptr;
  return IoError(path, "lock", errno);
}

StoreLock::~StoreLock() { close(fd_); }

}  // namespace ftune
