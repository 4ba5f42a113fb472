#include "data/file/json_walker.h"

#include <array>

namespace ftune {
namespace {

enum Class : uint8_t { kOther, kQuote, kBackslash, kNewline, kOpen, kClose, kComma };

constexpr std::array<Class, 256> MakeClasses() {
  std::array<Class, 256> classes{};
  classes['"'] = kQuote;
  classes['\\'] = kBackslash;
  classes['\n'] = kNewline;
  classes['{'] = classes['['] = kOpen;
  classes['}'] = classes[']'] = kClose;
  classes[','] = kComma;
  return classes;
}
constexpr std::array<Class, 256> kClasses = MakeClasses();

Class ClassOf(char c) { return kClasses[static_cast<unsigned char>(c)]; }

}  // namespace

JsonWalker::Stop JsonWalker::Walk(std::string_view text, int64_t offset, size_t* next, LineCounter& lines) {
  size_t at = *next;
  const size_t size = text.size();
  const auto stop = [&](Stop why) {
    *next = at;
    return why;
  };
  while (at < size) {
    if (in_string_) {
      if (escaped_) {
        if (text[at] == '\n') lines.NewLine(offset + static_cast<int64_t>(at) + 1);
        escaped_ = false;
        ++at;
        continue;
      }
      Class what = kOther;
      while (at < size && ((what = ClassOf(text[at])) == kOther || what >= kOpen)) ++at;
      if (at == size) break;
      if (what == kQuote) in_string_ = false;
      if (what == kBackslash) escaped_ = true;
      if (what == kNewline) lines.NewLine(offset + static_cast<int64_t>(at) + 1);
      ++at;
      continue;
    }
    const char c = text[at];
    switch (ClassOf(c)) {
      case kQuote:
        in_string_ = true;
        break;
      case kNewline:
        lines.NewLine(offset + static_cast<int64_t>(at) + 1);
        break;
      case kOpen:
        open_.push_back(c == '{' ? '}' : ']');
        break;
      case kClose:
        if (open_.empty()) return stop(Stop::kEnd);
        if (open_.back() != c) return stop(Stop::kMismatch);
        open_.pop_back();
        break;
      case kComma:
        if (open_.empty()) return stop(Stop::kEnd);
        break;
      default:
        break;
    }
    ++at;
  }
  return stop(Stop::kMore);
}

}  // namespace ftune
