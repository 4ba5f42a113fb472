#include "data/file/csv_record.h"

#include <utility>

#include "base/strings.h"
#include "data/file/text_place.h"

namespace ftune {
namespace {

constexpr size_t kNone = std::string_view::npos;

// The quoted field that begins at *at, which is moved behind its last quote. False where that is missing.
bool ReadQuoted(std::string_view record, size_t* at, std::string& field) {
  size_t begin = *at + 1;
  for (;;) {
    const size_t quote = record.find('"', begin);
    if (quote == kNone) return false;
    field.append(record, begin, quote - begin);
    begin = quote + 1;
    if (begin == record.size() || record[begin] != '"') break;
    field.push_back('"');
    ++begin;
  }
  *at = begin;
  return true;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseCsvRecord(std::string_view record, char separator,
                                                        const RowPlace& place) {
  std::vector<std::string> fields;
  for (size_t at = 0;;) {
    std::string& field = fields.emplace_back();
    if (at < record.size() && record[at] == '"') {
      const size_t quote = at;
      if (!ReadQuoted(record, &at, field)) {
        const TextPlace spot = PlaceInText(record, quote, place);
        return RowError(spot.place,
                        {.message = StrCat("the quote at column ", spot.column, " is not closed")});
      }
      if (at < record.size() && record[at] != separator) {
        const TextPlace spot = PlaceInText(record, at, place);
        return RowError(spot.place, {.message = StrCat("text behind a closing quote at column ", spot.column),
                                     .expected = "a separator or the end of the line",
                                     .hint = "double the quotes that belong to a field's text"});
      }
    } else {
      const size_t end = record.find(separator, at);
      field = std::string(record.substr(at, end == kNone ? kNone : end - at));
      at = end == kNone ? record.size() : end;
    }
    if (at == record.size()) return fields;
    ++at;  // the separator; a field follows, be it an empty one
  }
}

}  // namespace ftune
