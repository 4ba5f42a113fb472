// Where in a file a byte of a row's text is, and text that is none.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "data/source/row.h"

namespace ftune {

struct TextPlace {
  RowPlace place;
  int64_t column = 1;  // 1-based byte of the line
};

// Byte `at` of `text`, which begins in place.line at the byte `column`.
TextPlace PlaceInText(std::string_view text, size_t at, const RowPlace& place, int64_t column = 1);

// An error with line and byte where `text` is not UTF-8.
absl::Status CheckUtf8(std::string_view text, const RowPlace& place, int64_t column);

// An error where there is a zero byte: text has none, other encodings and damaged files do.
absl::Status CheckNoNul(std::string_view text, const RowPlace& place);

}  // namespace ftune
