#include "data/file/json_layout.h"

#include "data/file/json_list_scanner.h"
#include "data/file/json_walker.h"

namespace ftune {
namespace {

constexpr std::string_view kSpace = " \t\r\n\v\f";

std::string_view WithoutSpace(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

// Whether the first line of `text` is balanced and something stands behind it.
bool IsLineOfLines(std::string_view text) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos || WithoutSpace(text.substr(end)).empty()) return false;
  JsonWalker walker;
  LineCounter lines;
  size_t at = 0;
  return walker.Walk(text.substr(0, end), 0, &at, lines) == JsonWalker::Stop::kMore && walker.balanced();
}

}  // namespace

JsonLayout DetectJsonLayout(std::string_view begin, bool whole) {
  const std::string_view text = WithoutSpace(begin);
  if (text.starts_with('[')) return JsonLayout::kList;
  if (!text.starts_with('{')) return JsonLayout::kNone;
  if (IsLineOfLines(text)) return JsonLayout::kLines;

  // The scanner itself knows what a list of rows is. An error is given when the rows are read.
  JsonListScanner scanner("", /*in_object=*/true);
  RowBlock::Row row;
  scanner.Find(text, whole, row).IgnoreError();
  if (scanner.found_list()) return JsonLayout::kListInObject;
  const size_t line = text.find('\n');
  const bool bracket_alone = line != std::string_view::npos && WithoutSpace(text.substr(1, line - 1)).empty();
  return bracket_alone ? JsonLayout::kLoneObject : JsonLayout::kLines;
}

}  // namespace ftune
