#include "data/tokenizer/utf8.h"

#include <cstring>

namespace ftune {
namespace {

// Length of the well-formed character at `position`, or 0; `*subpart` is then how much of it was well-formed
// (at least 1). Unicode standard, table 3-7.
size_t WellFormedLength(std::string_view text, size_t position, size_t* subpart) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[position + i]); };
  const unsigned char lead = byte(0);
  *subpart = 1;
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  unsigned char low = 0x80, high = 0xBF;  // of the second byte
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  const size_t length = Utf8Length(text[position]);
  for (size_t i = 1; i < length; ++i) {
    if (position + i >= text.size() || byte(i) < low || byte(i) > high) return 0;
    *subpart = i + 1;
    low = 0x80;
    high = 0xBF;
  }
  return length;
}

}  // namespace

void AppendUtf8(std::string& to, char32_t c) {
  if (c < 0x80) {
    to.push_back(static_cast<char>(c));
    return;
  }
  if (c < 0x800) {
    to.push_back(static_cast<char>(0xC0 | c >> 6));
  } else {
    if (c < 0x10000) {
      to.push_back(static_cast<char>(0xE0 | c >> 12));
    } else {
      to.push_back(static_cast<char>(0xF0 | c >> 18));
      to.push_back(static_cast<char>(0x80 | (c >> 12 & 0x3F)));
    }
    to.push_back(static_cast<char>(0x80 | (c >> 6 & 0x3F)));
  }
  to.push_back(static_cast<char>(0x80 | (c & 0x3F)));
}

size_t ValidUtf8Prefix(std::string_view text, size_t position, size_t* bad) {
  const size_t start = position;
  *bad = 0;
  while (position < text.size()) {
    uint64_t word;
    if (position + sizeof(word) <= text.size()) {
      std::memcpy(&word, text.data() + position, sizeof(word));
      if ((word & 0x8080808080808080u) == 0) {
        position += sizeof(word);
        continue;
      }
    }
    size_t subpart;
    const size_t length = WellFormedLength(text, position, &subpart);
    if (length == 0) {
      *bad = subpart;
      break;
    }
    position += length;
  }
  return position - start;
}

size_t UnfinishedUtf8(std::string_view bytes) {
  for (size_t size = 1; size <= 3 && size <= bytes.size(); ++size) {
    const size_t start = bytes.size() - size;
    const auto lead = static_cast<unsigned char>(bytes[start]);
    if ((lead & 0xC0) == 0x80) continue;
    size_t subpart;
    const bool whole = WellFormedLength(bytes, start, &subpart) != 0;
    return !whole && lead >= 0xC2 && lead <= 0xF4 && subpart == size ? size : 0;
  }
  return 0;
}

std::string LossyUtf8(std::string_view bytes) {
  std::string text;
  size_t position = 0;
  while (position < bytes.size()) {
    size_t bad;
    const size_t valid = ValidUtf8Prefix(bytes, position, &bad);
    text.append(bytes.substr(position, valid));
    if (bad > 0) text.append(kReplacementUtf8);
    position += valid + bad;
  }
  return text;
}

}  // namespace ftune
