#include "base/printable.h"

namespace ftune {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

void Append(std::string& to, char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x20 && byte != 0x7f) return to.push_back(c);
  to.push_back('\\');
  switch (c) {
    case '\n':
      return to.push_back('n');
    case '\r':
      return to.push_back('r');
    case '\t':
      return to.push_back('t');
    default:
      to.push_back('x');
      to.push_back(kDigits[byte >> 4]);
      to.push_back(kDigits[byte & 15]);
  }
}

// Before `end`, and not within a character of UTF-8.
size_t CharacterBegin(std::string_view text, size_t end) {
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return end;
}

}  // namespace

std::string Printable(std::string_view text, size_t most) {
  const bool cut = text.size() > most;
  std::string shown;
  for (const char c : text.substr(0, cut ? CharacterBegin(text, most) : text.size())) Append(shown, c);
  if (cut) shown += "...";
  return shown;
}

}  // namespace ftune
