// JSON text of single values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ftune::arrow_plugin {

// `text` in quotation marks. Bytes that are not UTF-8 are left as they are: whoever parses the row names
// them.
void AppendJsonString(std::string_view text, std::string& to);

// The shortest text that reads back equal, always with a point or an exponent; `value` is finite.
void AppendJsonNumber(double value, std::string& to);

// In quotation marks. `days` since 1970-01-01; false, with nothing appended, outside the years 1 to 9999.
bool AppendJsonDate(int64_t days, std::string& to);

// In quotation marks: 2024-01-31T23:59:59, a fraction only where it is not zero (6 digits, or 9 where they
// are needed), and +00:00 where `utc`. `value` counts units of 1/`per_second` seconds since 1970-01-01.
// False, with nothing appended, outside the years 1 to 9999.
bool AppendJsonTimestamp(int64_t value, int64_t per_second, bool utc, std::string& to);

// In quotation marks, as above: 23:59:59. False, with nothing appended, outside one day.
bool AppendJsonTime(int64_t value, int64_t per_second, std::string& to);

}  // namespace ftune::arrow_plugin
