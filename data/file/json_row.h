// A row of JSON out of its text.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "data/source/row.h"

namespace ftune {

// The text of one JSON object. Broken JSON is an error with line and column (in bytes), a key that stands
// twice in one object is an error with the key, and so is nesting of more than 256 levels. The time does not
// grow faster than the text.
absl::StatusOr<OrderedJson> ParseJsonRow(std::string_view text, const RowPlace& place, int64_t column);

}  // namespace ftune
