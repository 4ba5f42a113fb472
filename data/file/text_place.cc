#include "data/file/text_place.h"

#include <algorithm>

#include "base/strings.h"
#include "data/tokenizer/utf8.h"

namespace ftune {

TextPlace PlaceInText(std::string_view text, size_t at, const RowPlace& place, int64_t column) {
  const std::string_view before = text.substr(0, at);
  const size_t newline = before.rfind('\n');
  if (newline == std::string_view::npos) return {place, column + static_cast<int64_t>(at)};
  return {{place.file, place.line + std::count(before.begin(), before.end(), '\n')},
          static_cast<int64_t>(at - newline)};
}

absl::Status CheckUtf8(std::string_view text, const RowPlace& place, int64_t column) {
  size_t bad = 0;
  const size_t valid = ValidUtf8Prefix(text, 0, &bad);
  if (valid == text.size()) return absl::OkStatus();
  const TextPlace spot = PlaceInText(text, valid, place, column);
  return RowError(spot.place, {.message = StrCat("not UTF-8 at byte ", spot.column, " of the line"),
                               .expected = "UTF-8",
                               .hint = "convert the file"});
}

absl::Status CheckNoNul(std::string_view text, const RowPlace& place) {
  const size_t nul = text.find('\0');
  if (nul == std::string_view::npos) return absl::OkStatus();
  const TextPlace spot = PlaceInText(text, nul, place);
  return RowError(spot.place, {.message = StrCat("a zero byte at byte ", spot.column, " of the line"),
                               .expected = "text in UTF-8",
                               .hint = "the file may be damaged, or in another encoding"});
}

}  // namespace ftune
