#include "data/file/jsonl_scanner.h"

#include <cstring>

namespace ftune {
namespace {

bool IsBlank(std::string_view line) { return line.find_first_not_of(" \t\r\v\f") == std::string_view::npos; }

}  // namespace

absl::StatusOr<RowScanner::Found> JsonlScanner::Find(std::string_view text, bool whole, RowBlock::Row& row) {
  while (next_ < text.size() || (whole && begin_ < text.size())) {
    const auto* end = static_cast<const char*>(std::memchr(text.data() + next_, '\n', text.size() - next_));
    if (end == nullptr && !whole) {
      next_ = text.size();
      return Found::kMore;
    }
    row = {begin_, (end == nullptr ? text.size() : static_cast<size_t>(end - text.data())) - begin_, line_};
    begin_ = next_ = row.begin + row.size + (end != nullptr);
    ++line_;
    if (!IsBlank(text.substr(row.begin, row.size))) return Found::kRow;
  }
  return whole ? Found::kEnd : Found::kMore;
}

}  // namespace ftune
