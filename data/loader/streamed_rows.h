// The rows of one entry of the data, made into samples while they are read.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "data/file/pipe_bytes.h"
#include "data/loader/row_stream.h"
#include "data/prepare/block_builder.h"
#include "data/prepare/entry_format.h"
#include "data/source/block_reader.h"
#include "data/source/dataset.h"

namespace ftune {

struct StreamObserver {
  // Told of each block of rows that was made into samples; an error ends the reading.
  std::function<absl::Status(const TokenBlock& block)> built = [](const TokenBlock&) {
    return absl::OkStatus();
  };
  std::function<void(const std::string&)> say = [](const std::string&) {};  // what a person is told
};

class StreamedRows final : public RowStream {
 public:
  // A regular file, a folder, a pattern, or a pipe (see IsPipe), which is read as it comes. `entry` and
  // `builder` outlive the rows.
  static absl::StatusOr<std::unique_ptr<StreamedRows>> Open(const DatasetEntry& entry,
                                                            const BlockBuilder& builder, BadRows bad_rows,
                                                            StreamObserver observer);

  absl::StatusOr<std::optional<StreamedRow>> Next() override;
  absl::StatusOr<int64_t> Skip(int64_t rows) override;
  void Interrupt() override;

 private:
  StreamedRows(const DatasetEntry& entry, const BlockBuilder& builder, BadRows bad_rows,
               StreamObserver observer)
      : entry_(entry),
        format_(entry, bad_rows, observer.say),
        builder_(builder),
        observer_(std::move(observer)) {}

  // Reads the next block into block_; false at the end.
  absl::StatusOr<bool> ReadBlock();
  absl::Status BuildBlock();

  const DatasetEntry& entry_;
  EntryFormat format_;
  const BlockBuilder& builder_;
  StreamObserver observer_;
  std::shared_ptr<PipeBytes> pipe_;  // null where the rows are in files
  std::unique_ptr<BlockReader> reader_;
  std::optional<RowBlock> block_;  // whose rows from next_row_ on are not built
  RowFormat block_format_ = RowFormat::kAuto;
  size_t next_row_ = 0;
  std::deque<StreamedRow> ready_;
};

}  // namespace ftune
