#include "data/template/jinja_unicode.h"

#include <string.h>
#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/uchar.h>

#include <algorithm>

namespace ftune::jinja {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Applies one of ICU's full case mappings, locale-free.
template <typename Mapping>
std::string MapCase(std::string_view s, Mapping mapping) {
  std::string out;
  icu::StringByteSink<std::string> sink(&out, static_cast<int32_t>(s.size()));
  UErrorCode status = U_ZERO_ERROR;
  mapping(icu::StringPiece(s.data(), static_cast<int32_t>(s.size())), sink, status);
  return U_SUCCESS(status) ? out : std::string(s);
}

void AppendTitleCase(char32_t c, std::string* out) {
  // Full mappings matter for a few letters only (the sharp s, ligatures); ICU has them for strings.
  std::string letter;
  AppendUtf8(c, &letter);
  out->append(MapCase(letter, [](icu::StringPiece text, icu::ByteSink& sink, UErrorCode& status) {
    icu::CaseMap::utf8ToTitle("", U_TITLECASE_NO_LOWERCASE, nullptr, text, sink, nullptr, status);
  }));
}

}  // namespace

size_t NextCodePoint(std::string_view s, size_t pos, char32_t* code_point) {
  const auto lead = static_cast<unsigned char>(s[pos]);
  if (lead < 0x80) {
    *code_point = lead;
    return pos + 1;
  }
  const int extra = lead >= 0xF0 && lead < 0xF5 ? 3 : lead >= 0xE0 ? 2 : 1;
  if (lead < 0xC2 || lead >= 0xF5 || s.size() - pos <= static_cast<size_t>(extra)) {
    *code_point = kReplacement;
    return pos + 1;
  }
  char32_t value = lead & (0x3F >> extra);
  for (int i = 1; i <= extra; ++i) {
    if (!IsContinuation(s[pos + i])) {
      *code_point = kReplacement;
      return pos + 1;
    }
    value = (value << 6) | (static_cast<unsigned char>(s[pos + i]) & 0x3F);
  }
  *code_point = value;
  return pos + 1 + extra;
}

void AppendUtf8(char32_t c, std::string* out) {
  if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) c = kReplacement;
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xC0 | (c >> 6)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | (c >> 12)));
    out->push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xF0 | (c >> 18)));
    out->push_back(static_cast<char>(0x80 | ((c >> 12) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  }
}

size_t CountCodePoints(std::string_view s) {
  size_t count = 0;
  char32_t c;
  for (size_t pos = 0; pos < s.size(); ++count) pos = NextCodePoint(s, pos, &c);
  return count;
}

size_t OffsetOfCodePoint(std::string_view s, size_t index) {
  size_t pos = 0;
  char32_t c;
  for (; index > 0 && pos < s.size(); --index) pos = NextCodePoint(s, pos, &c);
  return pos;
}

bool IsAscii(std::string_view s) {
  return std::all_of(s.begin(), s.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool IsSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool IsPrintable(char32_t c) {
  if (c == ' ') return true;
  switch (u_charType(static_cast<UChar32>(c))) {
    case U_UNASSIGNED:
    case U_CONTROL_CHAR:
    case U_FORMAT_CHAR:
    case U_PRIVATE_USE_CHAR:
    case U_SURROGATE:
    case U_SPACE_SEPARATOR:
    case U_LINE_SEPARATOR:
    case U_PARAGRAPH_SEPARATOR:
      return false;
    default:
      return true;
  }
}

bool IsAlpha(char32_t c) { return u_isalpha(static_cast<UChar32>(c)); }
bool IsDecimal(char32_t c) { return u_isdigit(static_cast<UChar32>(c)); }
bool IsUpper(char32_t c) { return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_UPPERCASE); }
bool IsLower(char32_t c) { return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_LOWERCASE); }
bool IsNameStart(char32_t c) {
  return c == '_' || u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_XID_START);
}
bool IsNamePart(char32_t c) { return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_XID_CONTINUE); }

std::string ToUpper(std::string_view s) {
  return MapCase(s, [](icu::StringPiece text, icu::ByteSink& sink, UErrorCode& status) {
    icu::CaseMap::utf8ToUpper("", 0, text, sink, nullptr, status);
  });
}

std::string ToLower(std::string_view s) {
  return MapCase(s, [](icu::StringPiece text, icu::ByteSink& sink, UErrorCode& status) {
    icu::CaseMap::utf8ToLower("", 0, text, sink, nullptr, status);
  });
}

std::string FoldCase(std::string_view s) {
  return MapCase(s, [](icu::StringPiece text, icu::ByteSink& sink, UErrorCode& status) {
    icu::CaseMap::utf8Fold(0, text, sink, nullptr, status);
  });
}

std::string ToTitle(std::string_view s) {
  std::string out;
  size_t pos = 0;
  while (pos < s.size()) {
    char32_t c;
    size_t end = pos;
    for (size_t next = pos; next < s.size(); end = next) {
      next = NextCodePoint(s, next, &c);
      if (!IsUpper(c) && !IsLower(c)) break;
    }
    if (end > pos) {
      out += ToCapitalized(s.substr(pos, end - pos));
      pos = end;
    } else {
      const size_t next = NextCodePoint(s, pos, &c);
      out.append(s.substr(pos, next - pos));
      pos = next;
    }
  }
  return out;
}

std::string ToCapitalized(std::string_view s) {
  std::string out;
  if (s.empty()) return out;
  char32_t c;
  const size_t next = NextCodePoint(s, 0, &c);
  AppendTitleCase(c, &out);
  // Lowered together with the first letter: a sigma at a word's end depends on what precedes it.
  out.append(ToLower(s).substr(ToLower(s.substr(0, next)).size()));
  return out;
}

size_t FindText(std::string_view s, std::string_view needle, size_t from) {
  if (from > s.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  // memmem is linear in the worst case, which std::string_view::find is not.
  const void* found = memmem(s.data() + from, s.size() - from, needle.data(), needle.size());
  return found == nullptr ? std::string_view::npos : static_cast<const char*>(found) - s.data();
}

size_t FindLastText(std::string_view s, std::string_view needle) {
  const std::string mirrored(s.rbegin(), s.rend());
  const std::string mirrored_needle(needle.rbegin(), needle.rend());
  const size_t at = FindText(mirrored, mirrored_needle);
  return at == std::string_view::npos ? at : s.size() - at - needle.size();
}

}  // namespace ftune::jinja
