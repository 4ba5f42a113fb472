// Rows out of their text.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "data/source/row.h"

namespace ftune {

// An error with line and byte where `text`, which begins in place.line at the 1-based byte `column`, is not
// UTF-8.
absl::Status CheckUtf8(std::string_view text, const RowPlace& place, int64_t column);

// An error where there is a zero byte: text has none, other encodings and damaged files do.
absl::Status CheckNoNul(std::string_view text, const RowPlace& place, int64_t column);

// The text of one JSON object. Broken JSON is an error with line and column (in bytes), a key that stands
// twice in one object is an error with the key, and so is nesting of more than 256 levels. The time does not
// grow faster than the text.
absl::StatusOr<OrderedJson> ParseJsonRow(std::string_view text, const RowPlace& place, int64_t column);

}  // namespace ftune
