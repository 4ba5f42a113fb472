// Numbers, durations and sizes as people write them, and back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ftune {

// Decimal digits with an optional minus. No leading zeros (octal to some readers), no "1_000", "0x10" or
// "1e3".
std::optional<int64_t> ParseInteger(std::string_view text);

// A finite decimal number: "2e-5", ".5", "5.", "-3".
std::optional<double> ParseNumber(std::string_view text);
// The shortest text that reads back equal, such that every YAML reader takes it for a number ("2.0e-05").
std::string FormatNumber(double value);

// "30m", "3h55m", "1d12h", "1.5s", "250ms"; a bare number is seconds. Each unit once, the largest first.
std::optional<double> ParseDuration(std::string_view text);
// The value in d, h, m and s; reads back equal.
std::string FormatDuration(double seconds);

// Bytes: "5GB" (1000³), "500MB", "16KiB" (1024), "1.5GiB", "4096", "12B".
std::optional<int64_t> ParseSize(std::string_view text);
// In the largest unit of 1000ⁿ that it is a multiple of; reads back equal.
std::string FormatSize(int64_t bytes);

}  // namespace ftune
