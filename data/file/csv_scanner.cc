#include "data/file/csv_scanner.h"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "data/file/csv_record.h"
#include "data/file/text_place.h"

namespace ftune {
namespace {

constexpr std::string_view kSeparators = ",;\t";

bool EndsLine(char c) { return c == '\n' || c == '\r'; }

}  // namespace

bool CsvScanner::IsSeparator(char c) const {
  return separator_ != 0 ? c == separator_ : kSeparators.find(c) != std::string_view::npos;
}

void CsvScanner::CountLineEnd(char c) {
  const int64_t offset = base_ + static_cast<int64_t>(next_);
  if (c == '\r') last_cr_ = offset;
  if (c == '\r' || last_cr_ != offset - 1) ++current_line_;
}

bool CsvScanner::WalkRecord(std::string_view text) {
  while (next_ < text.size()) {
    const char c = text[next_];
    if (state_ == State::kQuoted) {
      if (c == '"') state_ = State::kQuoteInQuoted;
      if (EndsLine(c)) CountLineEnd(c);
      ++next_;
      // The common case: bytes of the text itself.
      size_t at = next_;
      if (c != '"') {
        while (at < text.size() && text[at] != '"' && !EndsLine(text[at])) ++at;
      }
      next_ = at;
      continue;
    }
    if (EndsLine(c)) return true;
    ++next_;
    if (IsSeparator(c)) {
      if (found_separator_ == 0 || kSeparators.find(c) < kSeparators.find(found_separator_))
        found_separator_ = c;
      state_ = State::kFieldBegin;
    } else if (c == '"' && state_ != State::kField) {
      state_ = State::kQuoted;  // a field's first, or the second of two
    } else {
      state_ = State::kField;
      size_t at = next_;
      while (at < text.size() && !EndsLine(text[at]) && !IsSeparator(text[at])) ++at;
      next_ = at;
    }
  }
  return false;
}

absl::Status CsvScanner::ReadHeader(std::string_view record) {
  const RowPlace place{file_, line_};
  FTUNE_RETURN_IF_ERROR(CheckUtf8(record, place, 1));
  FTUNE_RETURN_IF_ERROR(CheckNoNul(record, place));
  if (separator_ == 0) separator_ = found_separator_ != 0 ? found_separator_ : ',';
  FTUNE_ASSIGN_OR_RETURN(std::vector<std::string> columns, ParseCsvRecord(record, separator_, place));
  std::unordered_set<std::string_view> names;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].empty()) {
      return RowError(place, {.message = StrCat("the header has no name for column ", i + 1),
                              .expected = "a first line that names all columns"});
    }
    if (!names.insert(columns[i]).second) {
      return RowError(place, {.key = columns[i],
                              .message = "the header names two columns so",
                              .expected = "a name of its own for each column"});
    }
  }
  header_ = std::make_shared<CsvHeader>(CsvHeader{std::move(columns), separator_});
  return absl::OkStatus();
}

absl::StatusOr<RowScanner::Found> CsvScanner::Find(std::string_view text, bool whole, RowBlock::Row& row) {
  for (;;) {
    const bool ended = WalkRecord(text);
    if (!ended && !whole) return Found::kMore;
    if (!ended && state_ == State::kQuoted) {
      return RowError({file_, line_},
                      {.message = "the file ends within a quoted field of the record that begins here",
                       .hint = "a quote is not closed, or the file is cut off"});
    }
    if (!ended && begin_ == text.size()) return Found::kEnd;
    row = {begin_, next_ - begin_, line_};
    if (ended) {
      CountLineEnd(text[next_]);
      ++next_;
    }
    const bool header = row.size > 0 && !header_;
    if (header) FTUNE_RETURN_IF_ERROR(ReadHeader(text.substr(row.begin, row.size)));
    begin_ = next_;
    line_ = current_line_;
    state_ = State::kFieldBegin;
    if (row.size > 0 && !header) return Found::kRow;
  }
}

}  // namespace ftune
