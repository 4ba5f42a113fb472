#include "cmd/recipe/units.h"

#include <charconv>
#include <cmath>
#include <iterator>

#include "base/strings.h"

namespace ftune {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit kDurations[] = {{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}, {"ms", 1e-3}};
constexpr Unit kSizes[] = {
    {"", 1},      {"b", 1},        {"kb", 1e3},        {"mb", 1e6},           {"gb", 1e9},
    {"tb", 1e12}, {"kib", 1024.0}, {"mib", 1048576.0}, {"gib", 1073741824.0}, {"tib", 1099511627776.0}};
constexpr double kLongest = 1e12;  // seconds: far above any use, far below what loses whole milliseconds

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The number at the start of `text`, cut off it. No sign and no exponent: "5E" is not a number and a unit.
std::optional<double> TakeNumber(std::string_view& text) {
  size_t length = 0;
  while (length < text.size() && (IsDigit(text[length]) || text[length] == '.')) ++length;
  const std::optional<double> number = ParseNumber(text.substr(0, length));
  text.remove_prefix(length);
  return number;
}

}  // namespace

std::optional<int64_t> ParseInteger(std::string_view text) {
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits.size() > 1 && digits[0] == '0') return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> ParseNumber(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  if (text.empty() || !(IsDigit(text[0]) || text[0] == '.' || text[0] == '-')) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string FormatNumber(double value) {
  std::string text = StrCat(value);
  // YAML 1.1 readers take an exponent without a point for text.
  const size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos) text.insert(exponent, ".0");
  return text;
}

std::optional<double> ParseDuration(std::string_view text) {
  if (text.empty()) return std::nullopt;
  if (const std::optional<double> bare = ParseNumber(text)) {
    return *bare >= 0 && *bare <= kLongest ? bare : std::nullopt;
  }
  double seconds = 0;
  double last_factor = INFINITY;
  while (!text.empty()) {
    const std::optional<double> number = TakeNumber(text);
    if (!number) return std::nullopt;
    size_t length = 0;
    while (length < text.size() && !IsDigit(text[length]) && text[length] != '.') ++length;
    const std::string_view name = text.substr(0, length);
    text.remove_prefix(length);
    double factor = 0;
    for (const Unit& unit : kDurations) {
      if (unit.name == name) factor = unit.factor;
    }
    if (factor == 0 || factor >= last_factor) return std::nullopt;
    last_factor = factor;
    seconds += *number * factor;
  }
  if (seconds > kLongest) return std::nullopt;
  return seconds;
}

std::string FormatDuration(double seconds) {
  if (seconds == 0) return "0s";
  std::string text;
  double rest = seconds;
  for (const Unit& unit : kDurations) {
    if (unit.factor < 60) break;
    const double whole = std::floor(rest / unit.factor);
    if (whole >= 1) StrAppend(text, static_cast<int64_t>(whole), unit.name);
    rest -= whole * unit.factor;
  }
  if (rest > 0) StrAppend(text, rest, "s");
  // A fraction may not survive being split into units, or be so small that it needs an exponent.
  if (ParseDuration(text) != seconds) return FormatNumber(seconds);
  return text;
}

std::optional<int64_t> ParseSize(std::string_view text) {
  const std::optional<double> number = TakeNumber(text);
  if (!number) return std::nullopt;
  while (text.starts_with(' ')) text.remove_prefix(1);
  const std::string name = Lower(text);
  for (const Unit& unit : kSizes) {
    if (unit.name != name) continue;
    const double bytes = std::floor(*number * unit.factor);
    if (bytes >= 9.2e18) return std::nullopt;
    return static_cast<int64_t>(bytes);
  }
  return std::nullopt;
}

std::string FormatSize(int64_t bytes) {
  constexpr std::string_view kNames[] = {"", "KB", "MB", "GB", "TB"};
  size_t unit = 0;
  while (bytes > 0 && bytes % 1000 == 0 && unit + 1 < std::size(kNames)) {
    bytes /= 1000;
    ++unit;
  }
  return StrCat(bytes, kNames[unit]);
}

}  // namespace ftune
