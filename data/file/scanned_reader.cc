#include "data/file/scanned_reader.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {

bool ScannedReader::Fits(const RowBlock::Row& row) const {
  return rows_.empty() || (row.begin + row.size - rows_.front().begin <= options_.block_bytes &&
                           rows_.size() < options_.block_rows);
}

size_t ScannedReader::NextEndsBehind() const {
  // White space may turn out not to belong to the row.
  const size_t last = text_.find_last_not_of(" \t\r\n");
  return std::max(scanner_->pending(), last == std::string::npos ? 0 : last + 1);
}

absl::Status ScannedReader::TooLong(int64_t line) const {
  return RowError({file_, line}, {.message = StrCat(scanner_->row_name(), " does not end within ",
                                                    options_.max_row_bytes >> 20, " MiB"),
                                  .expected = "shorter rows",
                                  .hint = "look for a quote or bracket that is not closed, or cut the row"});
}

absl::Status ScannedReader::ReadMore() {
  // What lies before the row that is being looked for is not needed where no block holds it.
  if (rows_.empty() && scanner_->pending() > 0) {
    text_.erase(0, scanner_->pending());
    scanner_->Shift(scanner_->pending());
  }
  if (text_.size() - scanner_->pending() > options_.max_row_bytes) return TooLong(scanner_->pending_line());
  if (text_.empty()) text_.reserve(options_.block_bytes + options_.read_bytes);
  const size_t have = text_.size();
  text_.resize(have + options_.read_bytes);
  const absl::StatusOr<size_t> read = bytes_->Read(text_.data() + have, options_.read_bytes);
  text_.resize(have + read.value_or(0));
  if (!read.ok()) return read.status();
  whole_ = *read == 0;
  return absl::OkStatus();
}

RowBlock ScannedReader::TakeBlock(size_t rest) {
  RowBlock block{.file = file_, .encoding = scanner_->encoding(), .header = scanner_->header()};
  const size_t begin = rows_.front().begin;
  const size_t end = rows_.back().begin + rows_.back().size;
  std::string left;
  if (!whole_) left.reserve(options_.block_bytes + options_.read_bytes);
  left.append(text_, rest, std::string::npos);
  text_.resize(end);
  text_.erase(0, begin);
  for (RowBlock::Row& row : rows_) row.begin -= begin;
  block.bytes = std::exchange(text_, std::move(left));
  block.rows = std::exchange(rows_, {});
  scanner_->Shift(rest);
  return block;
}

absl::StatusOr<std::optional<RowBlock>> ScannedReader::NextFull() {
  for (;;) {
    RowBlock::Row row;
    FTUNE_ASSIGN_OR_RETURN(const RowScanner::Found found, scanner_->Find(text_, whole_, row));
    switch (found) {
      case RowScanner::Found::kRow: {
        if (row.size > options_.max_row_bytes) return TooLong(row.line);
        any_ = true;
        if (Fits(row)) {
          rows_.push_back(row);
          break;
        }
        RowBlock block = TakeBlock(row.begin);
        row.begin = 0;
        rows_.push_back(row);
        return block;
      }
      case RowScanner::Found::kMore:
        if (!rows_.empty() && NextEndsBehind() - rows_.front().begin > options_.block_bytes) {
          return TakeBlock(scanner_->pending());
        }
        FTUNE_RETURN_IF_ERROR(ReadMore());
        break;
      case RowScanner::Found::kEnd:
        if (any_) return std::nullopt;
        return RowError({file_}, {.found = std::string(scanner_->nothing()), .expected = "at least one row"});
    }
  }
}

absl::StatusOr<std::optional<RowBlock>> ScannedReader::Next() {
  if (!ended_) {
    absl::StatusOr<std::optional<RowBlock>> block = NextFull();
    if (block.ok() && *block) return block;
    ended_ = block.status();
  }
  if (!rows_.empty()) return TakeBlock(text_.size());
  if (!ended_->ok()) return *ended_;
  return std::nullopt;
}

}  // namespace ftune
