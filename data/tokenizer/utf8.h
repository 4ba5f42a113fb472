// UTF-8 at the level the tokenizers need: walking characters of text that is known to be valid, and telling
// where text is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ftune {

inline constexpr char32_t kReplacementChar = 0xFFFD;
inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

// Length of the character that begins with `lead`, in valid UTF-8.
inline size_t Utf8Length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// The character at `text[*position]`, and *position moved behind it. `text` is valid UTF-8, *position a
// boundary.
inline char32_t NextChar(std::string_view text, size_t* position) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[*position + i]); };
  const size_t length = Utf8Length(text[*position]);
  char32_t c = byte(0);
  if (length == 2) c = (byte(0) & 0x1Fu) << 6 | (byte(1) & 0x3Fu);
  if (length == 3) c = (byte(0) & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
  if (length == 4) {
    c = (byte(0) & 0x07u) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 | (byte(3) & 0x3Fu);
  }
  *position += length;
  return c;
}

// Start of the character that ends before `position` > 0.
inline size_t PreviousBoundary(std::string_view text, size_t position) {
  do {
    --position;
  } while (position > 0 && (static_cast<unsigned char>(text[position]) & 0xC0) == 0x80);
  return position;
}

void AppendUtf8(std::string& to, char32_t c);

// How many bytes from `position` are valid characters. Less than the rest: bytes from there on are not UTF-8,
// and
// `*bad` is the length of the longest piece that one U+FFFD stands for (Unicode 3.9, "maximal subpart": what
// Rust's from_utf8_lossy and Python's errors="replace" do).
size_t ValidUtf8Prefix(std::string_view text, size_t position, size_t* bad);

// How many bytes at the end of `bytes` are the start of a character that more bytes could make whole: 0 to 3.
size_t UnfinishedUtf8(std::string_view bytes);

// `bytes` with each maximal subpart that is not UTF-8 replaced by U+FFFD.
std::string LossyUtf8(std::string_view bytes);

}  // namespace ftune
