#include "data/prepare/prepare_dataset.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_replace.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "data/audit/audit_report.h"
#include "data/prepare/shard_sink.h"
#include "data/store/memory_store.h"
#include "data/store/store_folder.h"

namespace ftune {
namespace {

constexpr double kMaxWeight = 1000;
constexpr int64_t kShards = 64;
constexpr int64_t kMinShardBytes = int64_t{1} << 20;
constexpr int64_t kMaxShardBytes = int64_t{64} << 20;

using Files = std::vector<std::vector<HashedFile>>;

absl::Status CheckEntries(const std::vector<DatasetEntry>& entries, const SampleOptions& options) {
  if (entries.empty())
    return UsageError({.key = "data.train", .found = "no dataset", .expected = "at least one"});
  if (options.sequence_len < 2) {
    return UsageError(
        {.key = "data.sequence_len", .found = StrCat(options.sequence_len), .expected = "2 or more"});
  }
  for (const DatasetEntry& entry : entries) {
    if (entry.mix.weight >= 0 && entry.mix.weight <= kMaxWeight) continue;
    return UsageError({.key = "data.train.weight",
                       .found = StrCat(entry.mix.weight),
                       .expected = StrCat("0 to ", kMaxWeight)});
  }
  return absl::OkStatus();
}

absl::StatusOr<Files> HashEntries(const std::vector<DatasetEntry>& entries) {
  Files files;
  for (const DatasetEntry& entry : entries) {
    FTUNE_ASSIGN_OR_RETURN(std::vector<HashedFile> some, HashEntry(entry));
    files.push_back(std::move(some));
  }
  return files;
}

std::vector<HashedFile> Flat(const Files& files) {
  std::vector<HashedFile> flat;
  for (const std::vector<HashedFile>& entry : files) flat.insert(flat.end(), entry.begin(), entry.end());
  return flat;
}

absl::Status NothingLeft(const std::vector<DatasetEntry>& entries, const DataReport& report) {
  const AuditCounts& audit = report.audit;
  const std::string first = audit.first_lost_message.empty() ? audit.first_lost : audit.first_lost_message;
  return RowError({entries.front().path},
                  {.message = StrCat("no row is left to train on: all ", report.rows, " were dropped"),
                   .found = StrCat(DescribeLost(audit), ", the first of which is ", first),
                   .hint = AdviceOnLost(audit)});
}

absl::StatusOr<Dataset> DatasetOf(const std::vector<DatasetEntry>& entries,
                                  std::shared_ptr<const TokenStore> store, DataReport report) {
  if (store->size() == 0) return NothingLeft(entries, report);
  Dataset dataset{.store = std::move(store), .report = std::move(report)};
  dataset.samples.resize(static_cast<size_t>(dataset.store->size()));
  std::iota(dataset.samples.begin(), dataset.samples.end(), 0);
  for (const DatasetEntry& entry : entries) dataset.mix.push_back(entry.mix);
  return dataset;
}

class MemorySink : public TokenSink {
 public:
  bool Has(uint32_t) const override { return false; }
  absl::Status Add(uint32_t, int32_t entry, const TokenBlock& block) override {
    store->Append(block, entry, report.rows);
    report.Merge(block.report);
    return absl::OkStatus();
  }

  std::shared_ptr<MemoryTokenStore> store = std::make_shared<MemoryTokenStore>();
  DataReport report;
};

absl::StatusOr<Dataset> BuildInMemory(const std::vector<DatasetEntry>& entries, const Files& files,
                                      const SampleBuilder& builder, const BuildOptions& build,
                                      const PrepareObserver& observer) {
  MemorySink sink;
  FTUNE_RETURN_IF_ERROR(BuildEntries(entries, files, builder, build, observer, sink).status());
  return DatasetOf(entries, std::move(sink.store), std::move(sink.report));
}

absl::Status CannotWrite(const std::filesystem::path& folder, const absl::Status& why) {
  const auto detail = DetailOf(why);
  return DataError({.file = folder.string(),
                    .key = "data.prepared_path",
                    .message = StrCat("the prepared data has no place there: ",
                                      detail ? detail->message : std::string(why.message())),
                    .hint = "name a folder that can be written"});
}

struct FoundStore {
  std::shared_ptr<const MappedTokenStore> store;  // null: none
  int64_t reused_shards = 0;
};

class StorePreparation {
 public:
  StorePreparation(const std::vector<DatasetEntry>& entries, const Files& files, const StoreKey& key,
                   const BuildOptions& build, const std::filesystem::path& folder,
                   const PrepareObserver& observer)
      : entries_(entries),
        files_(files),
        key_(key),
        build_(build),
        folder_(folder / HexOf(key.hash), key.hash),
        observer_(observer) {}

  const std::filesystem::path& path() const { return folder_.path(); }

  // The store that is there, if it is whole.
  FoundStore Ready() {
    if (!folder_.HasManifest()) return {};
    auto store = folder_.Open(build_.threads);
    if (!store.ok()) {
      SayFault(store.status(), "the store is mended");
      return {};
    }
    const auto shards = static_cast<int64_t>((*store)->shards().size());
    return {*std::move(store), shards};
  }

  // An error where the folder cannot be written to.
  absl::StatusOr<std::unique_ptr<StoreLock>> Lock() {
    FTUNE_RETURN_IF_ERROR(MakeFolder(path()));
    FTUNE_ASSIGN_OR_RETURN(std::unique_ptr<StoreLock> lock, StoreLock::Take(path(), /*wait=*/false));
    if (lock) return lock;
    observer_.say(StrCat("another process is preparing this data in ", path().string(), "; waiting for it"));
    return StoreLock::Take(path(), /*wait=*/true);
  }

  // With the lock held.
  absl::StatusOr<FoundStore> Build(const SampleBuilder& builder) {
    FTUNE_RETURN_IF_ERROR(folder_.RemoveUnfinished());
    FTUNE_RETURN_IF_ERROR(WriteFileAtomic(path() / "key.json", key_.description + "\n"));
    FTUNE_ASSIGN_OR_RETURN(StoreFolder::Shards found, folder_.FindShards(build_.threads));
    for (const absl::Status& bad : found.bad) {
      SayFault(bad, "its rows are prepared again");
    }
    const auto reused = static_cast<int64_t>(found.good.size());
    if (reused > 0) observer_.say(StrCat("going on from ", reused, " finished shards"));
    StoreShardSink sink(path(), key_.hash, std::move(found.good));
    FTUNE_ASSIGN_OR_RETURN(const uint32_t count,
                           BuildEntries(entries_, files_, builder, build_, observer_, sink));
    FTUNE_ASSIGN_OR_RETURN(std::vector<MappedShard> shards, sink.Finish(count));
    auto store = std::make_shared<const MappedTokenStore>(std::move(shards));
    FTUNE_RETURN_IF_ERROR(folder_.WriteManifest(*store));
    return FoundStore{std::move(store), reused};
  }

 private:
  // What is wrong with the store, once, and as what it is: no error, for it is put right.
  void SayFault(const absl::Status& fault, std::string_view what_is_done) {
    const std::string text = absl::StrReplaceAll(fault.message(), {{": error: ", ": "}});
    if (std::exchange(said_, text) != text) observer_.say(StrCat(text, "; ", what_is_done));
  }

  const std::vector<DatasetEntry>& entries_;
  const Files& files_;
  const StoreKey& key_;
  const BuildOptions& build_;
  StoreFolder folder_;
  const PrepareObserver& observer_;
  std::string said_;  // of faults, the last
};

int64_t BytesOf(const MappedTokenStore& store) {
  int64_t bytes = 0;
  for (const MappedShard& shard : store.shards()) bytes += shard.bytes();
  return bytes;
}

int64_t BytesOf(const Files& files) {
  int64_t total = 0;
  for (const std::vector<HashedFile>& entry : files) {
    for (const HashedFile& file : entry) total += file.size;
  }
  return total;
}

int64_t ShardBytes(const Files& files) {
  return std::clamp(BytesOf(files) / kShards, kMinShardBytes, kMaxShardBytes);
}

absl::Status CheckMayRead(const std::vector<DatasetEntry>& entries, const Files& files,
                          const std::optional<int64_t>& most_bytes) {
  const int64_t bytes = BytesOf(files);
  if (!most_bytes || bytes <= *most_bytes) return absl::OkStatus();
  return DataError({.file = entries.front().path,
                    .message = "the data is not prepared yet",
                    .found = StrCat(bytes / 1'000'000, " MB"),
                    .expected = StrCat("at most ", *most_bytes / 1'000'000, " MB to be read at once"),
                    .hint = "`ftune data` prepares it"});
}

}  // namespace

absl::StatusOr<PreparedDataset> PrepareDataset(const std::vector<DatasetEntry>& entries,
                                               const Tokenizer& tokenizer, const ChatTemplate* chat_template,
                                               const PrepareOptions& options,
                                               const PrepareObserver& observer) {
  FTUNE_RETURN_IF_ERROR(CheckEntries(entries, options.source.options));
  FTUNE_ASSIGN_OR_RETURN(const Files files, HashEntries(entries));
  BuildOptions build = options.build;
  if (build.shard_bytes == 0) build.shard_bytes = ShardBytes(files);
  const SampleBuilder builder(tokenizer, chat_template, options.source.options);
  const auto in_memory = [&]() -> absl::StatusOr<PreparedDataset> {
    FTUNE_ASSIGN_OR_RETURN(Dataset dataset, BuildInMemory(entries, files, builder, build, observer));
    return PreparedDataset{.dataset = std::move(dataset), .files = Flat(files)};
  };
  if (options.folder.empty()) {
    FTUNE_RETURN_IF_ERROR(CheckMayRead(entries, files, options.most_bytes));
    return in_memory();
  }

  FTUNE_ASSIGN_OR_RETURN(const StoreKey key, MakeStoreKey(entries, files, options.source, build));
  StorePreparation preparation(entries, files, key, build, options.folder, observer);
  FoundStore found = preparation.Ready();
  if (!found.store) {
    FTUNE_RETURN_IF_ERROR(CheckMayRead(entries, files, options.most_bytes));
    absl::StatusOr<std::unique_ptr<StoreLock>> lock = preparation.Lock();
    if (!lock.ok()) {
      const absl::Status status = CannotWrite(preparation.path(), lock.status());
      if (!options.memory_will_do) return status;
      observer.say(StrCat(std::string(status.message()), "; until then the samples are kept in memory"));
      return in_memory();
    }
    found = preparation.Ready();  // by the one that had the lock
    if (!found.store) {
      FTUNE_ASSIGN_OR_RETURN(found, preparation.Build(builder));
    }
  }
  PreparedDataset prepared{.store = {.path = preparation.path(),
                                     .bytes = BytesOf(*found.store),
                                     .shards = static_cast<int64_t>(found.store->shards().size()),
                                     .reused_shards = found.reused_shards},
                           .files = Flat(files)};
  DataReport report = found.store->report();
  FTUNE_ASSIGN_OR_RETURN(prepared.dataset, DatasetOf(entries, std::move(found.store), std::move(report)));
  return prepared;
}

}  // namespace ftune
