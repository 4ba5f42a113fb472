// Blocks of the rows that a scanner finds in bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/file/byte_source.h"
#include "data/file/row_scanner.h"

namespace ftune {

struct BlockOptions {
  // From the first byte of a block's first row to the last of its last; a longer row is a block of its own.
  size_t block_bytes = size_t{4} << 20;
  size_t block_rows = 65536;
  // Of a document too. A row is tokenised whole, which takes some 27 bytes of memory a byte of text.
  size_t max_row_bytes = size_t{64} << 20;
  size_t read_bytes = size_t{1} << 20;  // at a time; what is read does not depend on it
};

class ScannedReader : public BlockReader {
 public:
  // `file` is named in errors and blocks.
  ScannedReader(std::string file, std::unique_ptr<ByteSource> bytes, std::unique_ptr<RowScanner> scanner,
                const BlockOptions& options)
      : file_(std::move(file)), bytes_(std::move(bytes)), scanner_(std::move(scanner)), options_(options) {}

  absl::StatusOr<std::optional<RowBlock>> Next() override;

 private:
  // A block that is followed by something; nothing at the end.
  absl::StatusOr<std::optional<RowBlock>> NextFull();
  bool Fits(const RowBlock::Row& row) const;
  // Where the row that follows, if there is one, ends at the earliest.
  size_t NextEndsBehind() const;
  absl::Status ReadMore();
  // A block of rows_, whose text goes with it; the rest stays from byte `rest` on.
  RowBlock TakeBlock(size_t rest);
  absl::Status TooLong(int64_t line) const;

  std::string file_;
  std::unique_ptr<ByteSource> bytes_;
  std::unique_ptr<RowScanner> scanner_;
  BlockOptions options_;
  std::string text_;  // of the file, from the block's first row on
  std::vector<RowBlock::Row> rows_;
  bool whole_ = false;                 // text_ reaches to the file's end
  std::optional<absl::Status> ended_;  // or what was wrong, which comes after the rows before it
  bool any_ = false;                   // row was found
};

}  // namespace ftune
