#include "data/loader/streamed_rows.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/file/open_blocks.h"
#include "data/prepare/source_files.h"

namespace ftune {
namespace {

// Small, so that the rows of a slow writer are used soon.
constexpr size_t kPipeBlockBytes = size_t{64} << 10;

// A byte source that shares a pipe with whoever may interrupt it.
class SharedPipe : public ByteSource {
 public:
  explicit SharedPipe(std::shared_ptr<PipeBytes> pipe) : pipe_(std::move(pipe)) {}
  absl::StatusOr<size_t> Read(char* to, size_t size) override { return pipe_->Read(to, size); }

 private:
  std::shared_ptr<PipeBytes> pipe_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<StreamedRows>> StreamedRows::Open(const DatasetEntry& entry,
                                                                 const BlockBuilder& builder,
                                                                 BadRows bad_rows, StreamObserver observer) {
  std::unique_ptr<StreamedRows> rows(new StreamedRows(entry, builder, bad_rows, std::move(observer)));
  if (IsPipe(entry.path)) {
    FTUNE_ASSIGN_OR_RETURN(rows->pipe_, PipeBytes::Open(entry.path));
  } else {
    FTUNE_ASSIGN_OR_RETURN(std::vector<DataFile> files, ListEntry(entry));
    rows->reader_ = OpenFilesBlocks(std::move(files));
  }
  return rows;
}

absl::StatusOr<bool> StreamedRows::ReadBlock() {
  const auto read = [&]() -> absl::StatusOr<std::optional<RowBlock>> {
    if (!reader_) {
      // Opening looks at the first bytes, and so waits for them.
      OpenOptions options;
      options.block_bytes = options.read_bytes = kPipeBlockBytes;
      FTUNE_ASSIGN_OR_RETURN(reader_,
                             OpenBytesBlocks(pipe_->name(), std::make_unique<SharedPipe>(pipe_), options));
    }
    return reader_->Next();
  };
  absl::StatusOr<std::optional<RowBlock>> block = read();
  if (absl::IsCancelled(block.status())) return false;
  if (!block.ok()) return block.status();
  block_ = *std::move(block);
  next_row_ = 0;
  if (!block_) return false;
  FTUNE_ASSIGN_OR_RETURN(block_format_, format_.Of(*block_));
  return true;
}

// Makes the samples of the rest of the block.
absl::Status StreamedRows::BuildBlock() {
  RowBlock rest = *std::move(block_);
  block_.reset();
  rest.rows.erase(rest.rows.begin(), rest.rows.begin() + static_cast<int64_t>(next_row_));
  FTUNE_ASSIGN_OR_RETURN(const TokenBlock built, builder_.Build(rest, block_format_, entry_.mapping));
  FTUNE_RETURN_IF_ERROR(observer_.built(built));
  std::vector<StreamedRow> rows(rest.rows.size());
  for (const SampleRecord& sample : built.samples) {
    const auto begin = built.tokens.begin() + static_cast<int64_t>(sample.begin);
    rows[sample.row].emplace_back(begin, begin + sample.length);
  }
  std::move(rows.begin(), rows.end(), std::back_inserter(ready_));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<StreamedRow>> StreamedRows::Next() {
  while (ready_.empty()) {
    if (!block_) {
      FTUNE_ASSIGN_OR_RETURN(const bool more, ReadBlock());
      if (!more) return std::nullopt;
    }
    FTUNE_RETURN_IF_ERROR(BuildBlock());
  }
  StreamedRow row = std::move(ready_.front());
  ready_.pop_front();
  return row;
}

absl::StatusOr<int64_t> StreamedRows::Skip(int64_t rows) {
  int64_t skipped = 0;
  for (; skipped < rows && !ready_.empty(); ++skipped) ready_.pop_front();
  while (skipped < rows) {
    if (!block_ || next_row_ == block_->rows.size()) {
      FTUNE_ASSIGN_OR_RETURN(const bool more, ReadBlock());
      if (!more) break;
    }
    const auto left = static_cast<int64_t>(block_->rows.size() - next_row_);
    const int64_t some = std::min(left, rows - skipped);
    next_row_ += static_cast<size_t>(some);
    skipped += some;
  }
  return skipped;
}

void StreamedRows::Interrupt() {
  if (pipe_) pipe_->Interrupt();
}

}  // namespace ftune
