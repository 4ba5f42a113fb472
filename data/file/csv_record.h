// One record of a CSV file as its fields (RFC 4180).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "data/source/row.h"

namespace ftune {

// A field that begins with a quote ends with one, which a separator or the record's end must follow. A quote
// within another field is itself. Errors have line and column (in bytes).
absl::StatusOr<std::vector<std::string>> ParseCsvRecord(std::string_view record, char separator,
                                                        const RowPlace& place);

}  // namespace ftune
