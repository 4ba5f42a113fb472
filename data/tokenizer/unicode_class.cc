#include "data/tokenizer/unicode_class.h"

#include <unicode/uchar.h>

namespace ftune {

bool IsUnicodeSpace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return u_isUWhiteSpace(static_cast<UChar32>(c));
}

bool IsUnicodeNumeric(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_N_MASK) != 0;
}

bool IsPunctuation(char32_t c) {
  if (c < 0x80) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
  }
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_P_MASK) != 0;
}

bool IsCombiningMark(char32_t c) {
  return c >= 0x300 && (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_M_MASK) != 0;
}

bool IsWordChar(char32_t c) {
  const auto code = static_cast<UChar32>(c);
  constexpr uint32_t kMask = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return (U_GET_GC_MASK(code) & kMask) != 0 || u_hasBinaryProperty(code, UCHAR_ALPHABETIC) ||
         u_hasBinaryProperty(code, UCHAR_JOIN_CONTROL);
}

LowerCase ToLower(char32_t c) {
  // The one character whose lower case is two, whatever stands around it (SpecialCasing.txt).
  if (c == 0x130) return {'i', 0x307};
  return {static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))), 0};
}

}  // namespace ftune
