// The records of a CSV file as RFC 4180 has them: fields in quotes may hold separators, line ends and doubled
// quotes; records end with LF, CRLF or CR. The first record names the columns. Empty lines are left out.
#pragma once

#include <memory>
#include <string>

#include "data/file/row_scanner.h"

namespace ftune {

class CsvScanner : public RowScanner {
 public:
  // `file` is named in errors. Separator 0: the comma, else the semicolon, else the tab, whichever the header
  // has outside quotes.
  CsvScanner(std::string file, char separator) : file_(std::move(file)), separator_(separator) {}

  absl::StatusOr<Found> Find(std::string_view text, bool whole, RowBlock::Row& row) override;
  RowBlock::Encoding encoding() const override { return RowBlock::Encoding::kCsv; }
  std::shared_ptr<const CsvHeader> header() const override { return header_; }
  std::string_view row_name() const override { return "a record"; }
  std::string_view nothing() const override {
    return header_ ? "a header without records" : "only blank lines";
  }

 private:
  enum class State { kFieldBegin, kField, kQuoted, kQuoteInQuoted };

  // Moves next_ to the record's line end, or to the end of the text: false.
  bool WalkRecord(std::string_view text);
  void CountLineEnd(char c);  // at next_
  bool IsSeparator(char c) const;
  absl::Status ReadHeader(std::string_view record);

  std::string file_;
  char separator_;
  char found_separator_ = 0;  // in the header, outside quotes
  std::shared_ptr<const CsvHeader> header_;
  State state_ = State::kFieldBegin;
  int64_t last_cr_ = -2;      // byte of the file; a LF behind it ends no further line
  int64_t current_line_ = 1;  // of next_
};

}  // namespace ftune
