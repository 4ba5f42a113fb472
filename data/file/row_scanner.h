// Where the rows of a file begin and end, found in pieces of the file as they are read.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "data/source/block_reader.h"

namespace ftune {

// Every byte is looked at once, however the file is cut into pieces and however long a row is. What is found
// does not depend on the pieces.
class RowScanner {
 public:
  enum class Found {
    kRow,
    kMore,  // the row that begins at pending() goes on behind the text
    kEnd,   // there is no further row
  };

  virtual ~RowScanner() = default;

  // The next row of `text`, which is the file from where Shift left it on, as far as it was read; `whole`:
  // to its end. `row` is set where one is found. Errors are of the file, not of a row of it.
  virtual absl::StatusOr<Found> Find(std::string_view text, bool whole, RowBlock::Row& row) = 0;

  // What ends up in the blocks.
  virtual RowBlock::Encoding encoding() const = 0;
  virtual std::shared_ptr<const CsvHeader> header() const { return nullptr; }
  // "a line" …, for an error.
  virtual std::string_view row_name() const = 0;
  // What a file holds in which no row was found.
  virtual std::string_view nothing() const = 0;

  // The first byte of the text that is still needed, and its line.
  size_t pending() const { return begin_; }
  int64_t pending_line() const { return line_; }

  // The text begins `bytes` <= pending() later from now on.
  void Shift(size_t bytes) {
    begin_ -= bytes;
    next_ -= bytes;
    base_ += static_cast<int64_t>(bytes);
  }

 protected:
  size_t begin_ = 0;  // of the row that is being looked for
  size_t next_ = 0;   // the first byte that was not looked at
  int64_t line_ = 1;  // of begin_
  int64_t base_ = 0;  // the file's byte with which the text begins
};

}  // namespace ftune
