// Classes of characters as `tokenizers` (Rust's char and regex crates) has them.
#pragma once

namespace ftune {

bool IsUnicodeSpace(char32_t c);    // property White_Space
bool IsUnicodeNumeric(char32_t c);  // general category Nd, Nl, No
bool IsPunctuation(char32_t c);     // general category P*, and all of ASCII's !…/ :…@ […` {…~
bool IsCombiningMark(char32_t c);   // general category M*
bool IsNonspacingMark(char32_t c);  // general category Mn
bool IsOther(char32_t c);           // general category C*, unassigned ones among them
// \w of Rust's regex crate: Alphabetic, M*, Nd, Pc, Join_Control (Unicode UTS 18, annex C).
bool IsWordChar(char32_t c);
// The script of `c` for splitting text: of Unicode 9, with kana as Han; kNoScript for a space and for what
// has none. Source: `tokenizers`, after SentencePiece.
inline constexpr int kNoScript = -1;
int SplitScript(char32_t c);
// The lower case of `c`; up to two characters (U+0130), the second 0 if there is one only.
struct LowerCase {
  char32_t first, second;
};
LowerCase ToLower(char32_t c);

}  // namespace ftune
