#include "data/arrow/plugin/json_text.h"

#include <charconv>
#include <chrono>
#include <cstdio>

namespace ftune::arrow_plugin {
namespace {

constexpr int64_t kSecondsPerDay = 86400;
constexpr int64_t kNanosPerSecond = 1'000'000'000;
constexpr std::chrono::sys_days kFirstDay = std::chrono::year{1} / 1 / 1;
constexpr std::chrono::sys_days kLastDay = std::chrono::year{9999} / 12 / 31;

// `value` = quotient * divisor + rest, 0 <= rest < divisor.
struct Floored {
  int64_t quotient = 0;
  int64_t rest = 0;
};
Floored FloorDivide(int64_t value, int64_t divisor) {
  Floored result{value / divisor, value % divisor};
  if (result.rest < 0) {
    result.rest += divisor;
    --result.quotient;
  }
  return result;
}

bool AppendDate(int64_t days, std::string& to) {
  if (days < kFirstDay.time_since_epoch().count() || days > kLastDay.time_since_epoch().count()) return false;
  const std::chrono::year_month_day date{std::chrono::sys_days{std::chrono::days{days}}};
  char text[64];
  std::snprintf(text, sizeof(text), "%04d-%02u-%02u", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
  to.append(text);
  return true;
}

// `second` of a day and `fraction` units of 1/`per_second`.
void AppendTimeOfDay(int64_t second, int64_t fraction, int64_t per_second, std::string& to) {
  char text[64];
  std::snprintf(text, sizeof(text), "%02d:%02d:%02d", static_cast<int>(second / 3600),
                static_cast<int>(second / 60 % 60), static_cast<int>(second % 60));
  to.append(text);
  if (fraction == 0) return;
  const int64_t nanos = fraction * (kNanosPerSecond / per_second);
  if (nanos % 1000 == 0) {
    std::snprintf(text, sizeof(text), ".%06lld", static_cast<long long>(nanos / 1000));
  } else {
    std::snprintf(text, sizeof(text), ".%09lld", static_cast<long long>(nanos));
  }
  to.append(text);
}

}  // namespace

void AppendJsonString(std::string_view text, std::string& to) {
  constexpr char kHex[] = "0123456789abcdef";
  to.push_back('"');
  size_t copied = 0;  // all before it is in `to`
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
    to.append(text.substr(copied, i - copied));
    copied = i + 1;
    switch (byte) {
      case '"':
        to.append("\\\"");
        break;
      case '\\':
        to.append("\\\\");
        break;
      case '\n':
        to.append("\\n");
        break;
      case '\r':
        to.append("\\r");
        break;
      case '\t':
        to.append("\\t");
        break;
      default:
        to.append("\\u00");
        to.push_back(kHex[byte >> 4]);
        to.push_back(kHex[byte & 15]);
    }
  }
  to.append(text.substr(copied));
  to.push_back('"');
}

void AppendJsonNumber(double value, std::string& to) {
  char buffer[64];
  const char* end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  to.append(text);
  if (text.find_first_of(".e") == std::string_view::npos) to.append(".0");
}

bool AppendJsonDate(int64_t days, std::string& to) {
  const size_t begin = to.size();
  to.push_back('"');
  if (!AppendDate(days, to)) {
    to.resize(begin);
    return false;
  }
  to.push_back('"');
  return true;
}

bool AppendJsonTimestamp(int64_t value, int64_t per_second, bool utc, std::string& to) {
  const Floored seconds = FloorDivide(value, per_second);
  const Floored days = FloorDivide(seconds.quotient, kSecondsPerDay);
  const size_t begin = to.size();
  to.push_back('"');
  if (!AppendDate(days.quotient, to)) {
    to.resize(begin);
    return false;
  }
  to.push_back('T');
  AppendTimeOfDay(days.rest, seconds.rest, per_second, to);
  to.append(utc ? "+00:00\"" : "\"");
  return true;
}

bool AppendJsonTime(int64_t value, int64_t per_second, std::string& to) {
  const Floored seconds = FloorDivide(value, per_second);
  if (seconds.quotient < 0 || seconds.quotient >= kSecondsPerDay) return false;
  to.push_back('"');
  AppendTimeOfDay(seconds.quotient, seconds.rest, per_second, to);
  to.push_back('"');
  return true;
}

}  // namespace ftune::arrow_plugin
