#include "data/tokenizer/unicode_class.h"

#include <unicode/uchar.h>
#include <unicode/uscript.h>

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

bool IsNonspacingMark(char32_t c) {
  return c >= 0x300 && u_charType(static_cast<UChar32>(c)) == U_NON_SPACING_MARK;
}

bool IsOther(char32_t c) { return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_C_MASK) != 0; }

bool IsWordChar(char32_t c) {
  const auto code = static_cast<UChar32>(c);
  constexpr uint32_t kMask = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return (U_GET_GC_MASK(code) & kMask) != 0 || u_hasBinaryProperty(code, UCHAR_ALPHABETIC) ||
         u_hasBinaryProperty(code, UCHAR_JOIN_CONTROL);
}

int SplitScript(char32_t c) {
  if (c == ' ') return kNoScript;
  if (c == 0x30FC) return USCRIPT_HAN;  // the mark of long vowels
  // Of another script since.
  if (c == 0x589 || c == 0x61C) return USCRIPT_COMMON;
  if (c == 0x953 || c == 0x954) return USCRIPT_DEVANAGARI;
  const auto code = static_cast<UChar32>(c);
  UVersionInfo age;
  u_charAge(code, age);
  UErrorCode status = U_ZERO_ERROR;
  const UScriptCode script = uscript_getScript(code, &status);
  if (U_FAILURE(status) || script == USCRIPT_UNKNOWN || age[0] > 9) return kNoScript;
  return script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA ? USCRIPT_HAN : script;
}

LowerCase ToLower(char32_t c) {
  // The one character whose lower case is two, whatever stands around it (SpecialCasing.txt).
  if (c == 0x130) return {'i', 0x307};
  return {static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))), 0};
}

}  // namespace ftune
