#include "data/prepare/build_entries.h"

#include <memory>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "data/file/open_blocks.h"
#include "data/prepare/entry_format.h"
#include "data/prepare/ordered_pipeline.h"
#include "data/source/row_shape.h"

namespace ftune {
namespace {

struct Job {
  uint32_t shard = 0;
  int32_t entry = 0;
  RowFormat format = RowFormat::kAuto;
  const RowMapping* mapping = nullptr;
  RowBlock block;
};

// The size of all files as text, where it is that of the files.
std::optional<int64_t> TotalBytes(const std::vector<std::vector<HashedFile>>& files) {
  int64_t total = 0;
  for (const std::vector<HashedFile>& entry : files) {
    for (const HashedFile& file : entry) {
      const std::string name = Lower(file.file.path);
      for (const char* type : {".gz", ".zst", ".parquet", ".arrow", ".feather"}) {
        if (name.ends_with(type)) return std::nullopt;
      }
      total += file.size;
    }
  }
  return total;
}

class EntriesPass {
 public:
  EntriesPass(const SampleBuilder& builder, const BuildOptions& options, const PrepareObserver& observer,
              std::optional<int64_t> total_bytes, TokenSink& sink)
      : options_(options),
        observer_(observer),
        sink_(sink),
        block_builder_(builder, options.bad_rows),
        pipeline_(
            options.threads,
            [this](const Job& job) { return block_builder_.Build(job.block, job.format, *job.mapping); },
            [this](const Job& job, const TokenBlock& block) { return Consume(job, block); }) {
    progress_.total_bytes = total_bytes;
  }

  absl::Status ReadEntry(const DatasetEntry& entry, const std::vector<HashedFile>& files) {
    entry_ = &entry;
    format_.emplace(entry, options_.bad_rows, observer_.say);
    for (const HashedFile& file : files) {
      OpenOptions open;
      open.block_bytes = options_.block_bytes;
      FTUNE_ASSIGN_OR_RETURN(const std::unique_ptr<BlockReader> reader, OpenFileBlocks(file.file, open));
      for (;;) {
        FTUNE_ASSIGN_OR_RETURN(std::optional<RowBlock> block, reader->Next());
        if (!block) break;
        FTUNE_RETURN_IF_ERROR(TakeBlock(*std::move(block)));
      }
    }
    NextShard();  // a shard is of one entry
    ++entry_index_;
    return absl::OkStatus();
  }

  absl::StatusOr<uint32_t> Finish() {
    FTUNE_RETURN_IF_ERROR(pipeline_.Finish());
    return shard_;
  }

 private:
  absl::Status TakeBlock(RowBlock block) {
    const auto bytes = static_cast<int64_t>(block.bytes.size());
    // Also of rows that are passed over: the format is that of the entry's first.
    FTUNE_ASSIGN_OR_RETURN(const RowFormat format, format_->Of(block));
    if (sink_.Has(shard_)) {
      Advance(static_cast<int64_t>(block.rows.size()), bytes);
    } else {
      FTUNE_RETURN_IF_ERROR(
          pipeline_.Push({shard_, entry_index_, format, &entry_->mapping, std::move(block)}));
    }
    shard_bytes_ += bytes;
    if (shard_bytes_ >= options_.shard_bytes) NextShard();
    return absl::OkStatus();
  }

  void NextShard() {
    if (shard_bytes_ > 0) ++shard_;
    shard_bytes_ = 0;
  }

  absl::Status Consume(const Job& job, const TokenBlock& block) {
    FTUNE_RETURN_IF_ERROR(sink_.Add(job.shard, job.entry, block));
    Advance(block.report.rows, static_cast<int64_t>(job.block.bytes.size()));
    return absl::OkStatus();
  }

  void Advance(int64_t rows, int64_t bytes) {
    progress_.rows += rows;
    progress_.bytes += bytes;
    observer_.progress(progress_);
  }

  const BuildOptions& options_;
  const PrepareObserver& observer_;
  TokenSink& sink_;
  BlockBuilder block_builder_;
  PrepareProgress progress_;
  const DatasetEntry* entry_ = nullptr;  // the one that is read
  int32_t entry_index_ = 0;
  uint32_t shard_ = 0;
  int64_t shard_bytes_ = 0;
  std::optional<EntryFormat> format_;          // of the entry at hand
  OrderedPipeline<Job, TokenBlock> pipeline_;  // last: its threads use the others
};

}  // namespace

absl::StatusOr<uint32_t> BuildEntries(const std::vector<DatasetEntry>& entries,
                                      const std::vector<std::vector<HashedFile>>& files,
                                      const SampleBuilder& builder, const BuildOptions& options,
                                      const PrepareObserver& observer, TokenSink& sink) {
  EntriesPass pass(builder, options, observer, TotalBytes(files), sink);
  for (size_t entry = 0; entry < entries.size(); ++entry) {
    const absl::Status read = pass.ReadEntry(entries[entry], files[entry]);
    if (read.ok()) continue;
    // Rows before the place where reading failed come first with their errors, as if done one by one.
    FTUNE_RETURN_IF_ERROR(pass.Finish().status());
    return read;
  }
  FTUNE_ASSIGN_OR_RETURN(const uint32_t shards, pass.Finish());
  for (const std::vector<HashedFile>& entry : files) {
    for (const HashedFile& file : entry) FTUNE_RETURN_IF_ERROR(CheckUnchanged(file));
  }
  return shards;
}

}  // namespace ftune
